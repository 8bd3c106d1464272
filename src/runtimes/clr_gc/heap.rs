//! What CoreCLR and NativeAOT have in common of their heaps: where objects are, their types, and what follows from both.

use std::sync::atomic::AtomicU64;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::api::type_table::TypeTable;
use crate::runtimes::api::{Elements, Heap, Part, Segment, TypeIndex, TypeInfo};
use crate::runtimes::clr_gc::reader::{Dependents, Layouts};
use crate::runtimes::clr_gc::{AllocContext, References};

/// Objects begin at multiples of this, on 64 bits in all parts of the heap.
pub(crate) const ALIGN: u64 = 8;

/// From an object to its count of elements, where no layout tells.
pub(crate) const COUNT_AT: u64 = 8;

/// Room of the smallest object (MIN_OBJECT_SIZE of gcinterface.h: sync block,
/// MethodTable, one field).
pub(crate) const MIN_OBJECT: u64 = 24;

/// Size of an array without elements that its elements do not follow: the word
/// of its sync block.
const HEADER: u64 = 8;

/// Least base size: a string's, which counts no character but its NUL.
pub(crate) const MIN_BASE_SIZE: u32 = 22;

/// Bytes of a character; an array of them has a larger head.
const STRING_COMPONENT: u16 = 2;

/// From one object to the next; `size` is at least that of the smallest object.
pub(crate) fn stride(size: u64) -> u64 {
    size.saturating_add(ALIGN - 1) & !(ALIGN - 1)
}

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodTableInfo {
    /// Its MethodTable.
    pub address: Addr,
    /// Its flags.
    pub flags: u32,
    /// Size of an object, without elements.
    pub base_size: u32,
    /// Size of an element; 0 for what has none.
    pub component_size: u16,
    /// Whether it is the space between objects.
    pub free: bool,
    /// Whether it is System.String.
    pub string: bool,
}

impl MethodTableInfo {
    /// Whether its objects have a count of elements.
    pub fn counted(&self) -> bool {
        self.component_size != 0
    }

    /// Whether sizes are a string's: characters, of which the first is counted with the head.
    pub(crate) fn is_string(base_size: u32, component_size: u16) -> bool {
        base_size == MIN_BASE_SIZE && component_size == STRING_COMPONENT
    }

    /// The same in the words that all runtimes share. `string_form`: where strings have length and first character.
    pub(crate) fn info(&self, string_form: Option<(u64, u64)>) -> TypeInfo {
        let elements = || Elements { start: self.start_of_elements(string_form), size: u64::from(self.component_size) };
        TypeInfo {
            address: self.address,
            free: self.free,
            string: self.string,
            of_types: false,
            elements: self.counted().then(elements),
        }
    }

    /// From an object's start to its first element. A string's base size counts the NUL behind its characters.
    pub(crate) fn start_of_elements(&self, string_form: Option<(u64, u64)>) -> u64 {
        let after_base = u64::from(self.base_size).saturating_sub(HEADER);
        string_form.filter(|_| self.string).map_or(after_base, |(_, first_char)| first_char)
    }
}

/// All MethodTables met so far, each looked at once.
pub(crate) struct MethodTables(TypeTable<MethodTableInfo>);

impl MethodTables {
    /// Only that of free space, whose address may be known.
    pub(crate) fn new(free: MethodTableInfo, address: Option<Addr>) -> MethodTables {
        MethodTables(TypeTable::new(free, address.map(Addr::get), limits::MAX_METHOD_TABLES))
    }

    /// What the table of that number is.
    pub(crate) fn get(&self, kind: TypeIndex) -> Option<MethodTableInfo> {
        self.0.get(kind)
    }

    /// The number of System.String, if one was met.
    pub(crate) fn string(&self) -> Option<TypeIndex> {
        self.0.find(|info| info.string)
    }

    /// Whether no more tables are taken: their objects are then lost.
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Number of tables met so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The MethodTable at `address`, as `read` finds it if it was not met before.
    pub(crate) fn lookup(
        &self,
        address: u64,
        read: impl FnOnce(Addr) -> Option<MethodTableInfo>,
    ) -> Option<(TypeIndex, MethodTableInfo)> {
        self.0.lookup(address, || {
            let info = read(Addr::new(address))?;
            Some((info, info.free))
        })
    }
}

/// A heap of that GC: from it follow the walk ([`Linear`](crate::runtimes::api::linear::Linear)) and the reader.
pub(crate) trait ClrHeap: Heap {
    /// Whether an object's size is told with what fills it up to the next: so do runtimes whose own tools count no sizes.
    const ROUNDS: bool;

    /// The process.
    fn process(&self) -> &Process;

    /// Its memory.
    fn memory(&self) -> &dyn Memory;

    /// What of an object's first word is its MethodTable: a collection puts marks into it.
    fn mask(&self) -> u64;

    /// From an object to its count of elements.
    fn count_at(&self) -> u64 {
        COUNT_AT
    }

    /// The MethodTable at an address, if it is one.
    fn table_at(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)>;

    /// Where objects of a type hold references.
    fn references(&self, info: &MethodTableInfo) -> References;

    /// The System.Reflection.LoaderAllocator that objects of a collectible type keep.
    fn allocator(&self, _info: &MethodTableInfo) -> Option<Addr> {
        None
    }

    /// What allocators own, by address; no object is from `pointer` to past `limit`.
    fn contexts(&self) -> &[AllocContext];

    /// Bytes that were searched for the first object after a loss.
    fn searched(&self) -> &AtomicU64;

    /// What readers know of types.
    fn layouts(&self) -> &Layouts;

    /// What dependent handles keep.
    fn dependents(&self) -> &Dependents;
}

/// The runs of all segments that `fit` too. Segments that overlap would be counted twice: the later one is left out.
pub(crate) fn parts(segments: &[Segment], notes: &mut Vec<String>, mut fit: impl FnMut(&Part) -> bool) -> Vec<Part> {
    let mut all: Vec<Part> = segments
        .iter()
        .flat_map(|s| {
            let heap = s.heap;
            s.runs().map(move |(generation, range)| Part { heap, generation: generation.managed(), range })
        })
        .collect();
    all.sort_by_key(|p| (p.range.start, p.range.end));
    let whole = all.len();
    let mut end = Addr::NULL;
    all.retain(|p| {
        let sane = p.range.start >= end
            && p.range.start.is_aligned(ALIGN)
            && p.range.len() <= limits::MAX_RUNTIME_RANGE
            && fit(p);
        if sane {
            end = p.range.end;
        }
        sane
    });
    if all.len() < whole {
        let out = crate::units::count((whole - all.len()) as u64, "segment");
        notes.push(format!("{out} with invalid or overlapping bounds ignored"));
    }
    all
}

//! The parts of a .NET heap that CoreCLR and NativeAOT share: address ranges, types, and what follows from both.

use std::sync::atomic::AtomicU64;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::api::type_table::TypeTable;
use crate::runtimes::api::{Elements, Heap, HeapRange, Segment, TypeIndex, TypeInfo};
use crate::runtimes::clr_gc::reader::{Dependents, ObjectLayouts};
use crate::runtimes::clr_gc::{AllocContext, References};

/// Alignment of objects in all parts of a 64-bit heap.
pub(crate) const ALIGN: u64 = 8;

/// Default offset of an array's element count from the object's start.
pub(crate) const COUNT_AT: u64 = 8;

/// Smallest object: sync block, MethodTable, one field (MIN_OBJECT_SIZE of gcinterface.h).
pub(crate) const MIN_OBJECT: u64 = 24;

/// Bytes of the ObjHeader. An array's base size counts it, but it precedes the object.
const HEADER: u64 = 8;

/// Smallest base size: a string's, which counts only the terminating NUL.
pub(crate) const MIN_BASE_SIZE: u32 = 22;

/// Bytes of a character. An array of characters has a larger base size than a string.
const STRING_COMPONENT: u16 = 2;

/// Distance from one object to the next. `size` must be at least [`MIN_OBJECT`].
pub(crate) fn stride(size: u64) -> u64 {
    size.saturating_add(ALIGN - 1) & !(ALIGN - 1)
}

/// A type of objects, as its MethodTable describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodTableInfo {
    /// Address of the MethodTable.
    pub address: Addr,
    /// Flags of the MethodTable.
    pub flags: u32,
    /// Size of an object without elements, in bytes.
    pub base_size: u32,
    /// Size of an element in bytes; 0 for types without elements.
    pub component_size: u16,
    /// Whether it is the type of free space between objects.
    pub free: bool,
    /// Whether it is System.String.
    pub string: bool,
}

impl MethodTableInfo {
    /// Whether its objects have an element count.
    pub fn counted(&self) -> bool {
        self.component_size != 0
    }

    /// Whether these sizes are a string's. Its base size includes one character, the NUL.
    pub(crate) fn is_string(base_size: u32, component_size: u16) -> bool {
        base_size == MIN_BASE_SIZE && component_size == STRING_COMPONENT
    }

    /// Converts to the type info that all runtimes share. `string_form`: offsets of a string's length and of its first
    /// character.
    pub(crate) fn info(&self, string_form: Option<(u64, u64)>) -> TypeInfo {
        let elements = || Elements { start: self.start_of_elements(string_form), size: u64::from(self.component_size) };
        TypeInfo {
            address: self.address,
            free: self.free,
            string: self.string,
            represents_types: false,
            elements: self.counted().then(elements),
        }
    }

    /// Offset of the first element from the object's start. A string's base size includes the NUL after its characters,
    /// so its offset comes from `string_form`.
    pub(crate) fn start_of_elements(&self, string_form: Option<(u64, u64)>) -> u64 {
        let after_base = u64::from(self.base_size).saturating_sub(HEADER);
        string_form.filter(|_| self.string).map_or(after_base, |(_, first_char)| first_char)
    }
}

/// The MethodTables found so far. Each is read once.
pub(crate) struct MethodTables(TypeTable<MethodTableInfo>);

impl MethodTables {
    /// A table with only the type of free space, whose address may be known.
    pub(crate) fn new(free: MethodTableInfo, address: Option<Addr>) -> MethodTables {
        MethodTables(TypeTable::new(free, address.map(Addr::get), limits::MAX_METHOD_TABLES))
    }

    /// Returns the type with that number.
    pub(crate) fn get(&self, kind: TypeIndex) -> Option<MethodTableInfo> {
        self.0.get(kind)
    }

    /// Returns the number of System.String, if it has been found.
    pub(crate) fn string(&self) -> Option<TypeIndex> {
        self.0.find(|info| info.string)
    }

    /// Whether the limit is reached. Objects of further types are lost.
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the MethodTable at `address`. Calls `read` if it was not seen before.
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

/// A heap of this GC. The walk ([`LinearHeap`](crate::runtimes::api::linear::LinearHeap)) and the reader are built on
/// it.
pub(crate) trait ClrHeap: Heap {
    /// Whether sizes are rounded up to the next object. True for runtimes whose own tools report no sizes.
    const SIZES_ARE_ROUNDED: bool;

    fn process(&self) -> &Process;

    fn memory(&self) -> &dyn Memory;

    /// Mask for an object's first word that yields the MethodTable: a collection stores marks in it.
    fn mask(&self) -> u64;

    /// Offset of an array's element count from the object's start.
    fn count_at(&self) -> u64 {
        COUNT_AT
    }

    /// Returns the MethodTable at `address`, if there is one.
    fn table_at(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)>;

    /// Returns the offsets of references in objects of a type. `None` if the type has references that can't be read.
    fn references(&self, info: &MethodTableInfo) -> Option<References>;

    /// Returns the System.Reflection.LoaderAllocator that objects of a collectible type keep alive.
    fn allocator(&self, _info: &MethodTableInfo) -> Option<Addr> {
        None
    }

    /// Allocation contexts by address. No object is from `pointer` to past `limit`.
    fn contexts(&self) -> &[AllocContext];

    /// Counter of the bytes searched for the first object after a loss.
    fn searched(&self) -> &AtomicU64;

    /// Cache of type layouts for readers.
    fn layouts(&self) -> &ObjectLayouts;

    /// Objects kept alive by dependent handles.
    fn dependents(&self) -> &Dependents;
}

/// Returns the runs of all segments that `fit` accepts, by address. Of two segments that overlap the later one is left
/// out, so that nothing is counted twice.
pub(crate) fn parts(
    segments: &[Segment],
    notes: &mut Vec<String>,
    mut fit: impl FnMut(&HeapRange) -> bool,
) -> Vec<HeapRange> {
    let mut all: Vec<HeapRange> = segments
        .iter()
        .flat_map(|s| {
            let heap = s.heap;
            s.runs().map(move |(generation, range)| HeapRange { heap, generation: generation.managed(), range })
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

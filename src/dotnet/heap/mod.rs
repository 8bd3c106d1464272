//! The objects of the GC's heap: every segment walked from object to object.
//!
//! An object is its MethodTable, then its fields; its size is BaseSize, and
//! for arrays and strings a count of elements more. What lies between objects
//! is none of its own: dead space is an object of the type `Free`. Only what an
//! allocator still owns, and what a collection was about to move, is not
//! (src/coreclr/gc: gc.cpp, gc_heap::walk_heap_per_heap, make_unused_array;
//! docs/design/datacontracts/Object.md, GC.md).

mod locate;
mod method_tables;
mod stat;
mod strings;
mod walk;

pub use method_tables::MethodTableInfo;
pub use stat::{FreeBlock, HeapStat, Selection, Tally, TypeStat};
pub use strings::{Duplicate, StringStat};
pub use walk::{Loss, Losses, Walker};

use std::sync::atomic::AtomicU64;

use crate::addr::{Addr, AddrRange};
use crate::dotnet::threads::{AllocContext, threads};
use crate::dotnet::types::TypeSystem;
use crate::dotnet::{Generation, Heaps};
use crate::limits;
use method_tables::MethodTables;

/// Objects begin at multiples of this, on 64 bits in all parts of the heap.
const ALIGN: u64 = 8;

/// An array's count of elements, where no layout tells.
const COUNT_AT: u64 = 8;

/// Room of the smallest object (MIN_OBJECT_SIZE of gcinterface.h: sync block,
/// MethodTable, one field).
pub(super) const MIN_OBJECT: u64 = 24;

/// Number of a MethodTable among those met so far; dense from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub u32);

/// The type of the space between objects.
pub const FREE: TypeIndex = TypeIndex(0);

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where its MethodTable pointer is.
    pub addr: Addr,
    /// Its type.
    pub kind: TypeIndex,
    /// Its size, as SOS counts it: not rounded up to where the next may begin.
    pub size: u64,
}

impl Object {
    /// Where the next object may begin.
    pub fn end(&self) -> Addr {
        self.addr.saturating_add(stride(self.size))
    }
}

/// From one object to the next; `size` is at least that of the smallest object.
fn stride(size: u64) -> u64 {
    size.saturating_add(ALIGN - 1) & !(ALIGN - 1)
}

/// A run of objects of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of its GC heap.
    pub heap: u32,
    /// Generation of all objects in it.
    pub generation: Generation,
    /// From the first object to the end of the last.
    pub range: AddrRange,
}

/// The heap of one runtime, ready to be walked.
pub struct Heap<'p> {
    types: &'p TypeSystem<'p>,
    tables: MethodTables<'p>,
    parts: Vec<Part>,
    /// By address; what lies from `pointer` to past `limit` holds no object.
    contexts: Vec<AllocContext>,
    mask: u64,
    /// From an object to its count of elements.
    count_at: u64,
    in_gc: bool,
    notes: Vec<String>,
    /// Bytes that were searched for the first object after a loss.
    searched: AtomicU64,
}

impl<'p> Heap<'p> {
    /// Prepare to walk the segments in `heaps`.
    pub fn open(types: &'p TypeSystem<'p>, heaps: &Heaps) -> Heap<'p> {
        let mut notes = Vec::new();
        let mut contexts = heaps.contexts.clone();
        contexts.extend(AllocContext::global(types.memory, types.runtime));
        match threads(types.process, types.runtime) {
            Ok((list, broken)) => {
                contexts.extend(list.iter().filter_map(|t| t.alloc_context));
                notes.extend(broken);
            }
            Err(e) => notes.push(format!("its threads' allocation contexts: {e}")),
        }
        contexts.sort_unstable();
        contexts.dedup();
        let count_at = types.runtime.layout.positive("Array", "m_NumComponents");
        Heap {
            types,
            tables: MethodTables::new(types),
            parts: affordable(types, parts(heaps, &mut notes), &mut notes),
            searched: AtomicU64::new(0),
            contexts,
            mask: !types.mark_bits(),
            count_at: count_at.ok().filter(|at| at.is_multiple_of(ALIGN)).unwrap_or(COUNT_AT),
            in_gc: heaps.in_gc,
            notes,
        }
    }

    /// Runs of objects, by address; none shares a byte with another.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What makes the heap harder to walk, in words.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether a collection was moving objects.
    pub fn in_gc(&self) -> bool {
        self.in_gc
    }

    /// What is known of a type.
    pub fn kind(&self, kind: TypeIndex) -> Option<MethodTableInfo> {
        self.tables.get(kind)
    }

    /// A type's name: `Free`, or as [`TypeSystem::display_name`] tells.
    pub fn type_name(&self, info: &MethodTableInfo) -> String {
        if info.free { "Free".into() } else { self.types.display_name(info.address) }
    }

    /// Whether there are more types than are taken; objects of the others are lost.
    pub fn has_too_many_types(&self) -> bool {
        self.tables.is_full()
    }

    /// Something that walks parts and remembers the MethodTables it met.
    pub fn walker(&self) -> Walker<'_, 'p> {
        Walker::new(self)
    }

    /// The MethodTable at `address`, if it is one.
    pub(crate) fn lookup(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.tables.lookup(address)
    }

    /// The bits of an object's first word that are its MethodTable's address.
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    /// From an array to its count of elements.
    pub(crate) fn count_at(&self) -> u64 {
        self.count_at
    }

    /// Contexts that may matter in `range`.
    fn contexts_in(&self, range: AddrRange) -> &[AllocContext] {
        let from = self.contexts.partition_point(|c| c.pointer < range.start);
        let to = self.contexts.partition_point(|c| c.pointer < range.end);
        self.contexts.get(from..to).unwrap_or_default()
    }
}

/// The runs of all segments. Segments that overlap would be counted twice: the
/// later one is left out.
fn parts(heaps: &Heaps, notes: &mut Vec<String>) -> Vec<Part> {
    let mut all: Vec<Part> = heaps
        .segments
        .iter()
        .flat_map(|s| {
            let heap = s.heap;
            s.runs().map(move |(generation, range)| Part { heap, generation, range })
        })
        .collect();
    all.sort_by_key(|p| (p.range.start, p.range.end));
    let mut end = Addr::NULL;
    let mut left_out = 0_usize;
    all.retain(|p| {
        let sane =
            p.range.start >= end && p.range.start.is_aligned(ALIGN) && p.range.len() <= limits::MAX_RUNTIME_RANGE;
        if sane {
            end = p.range.end;
        } else {
            left_out += 1;
        }
        sane
    });
    if left_out > 0 {
        notes.push(format!("{left_out} segments that overlap others, or can't be, are left out"));
    }
    all
}

/// The parts as far as together they have no more bytes than the core's file:
/// where they have, it maps the same bytes many times, to keep us busy.
fn affordable(types: &TypeSystem<'_>, mut all: Vec<Part>, notes: &mut Vec<String>) -> Vec<Part> {
    let facts = types.process.facts();
    let mut left = facts.size;
    let whole = all.len();
    let fits = |part: &Part| left.checked_sub(facts.space.dumped_in(part.range)).inspect(|rest| left = *rest).is_some();
    let kept = all.iter().map(fits).take_while(|&fits| fits).count();
    all.truncate(kept);
    if kept < whole {
        notes.push(format!("{} of its segments are left out: they hold more than the whole file", whole - kept));
    }
    all
}

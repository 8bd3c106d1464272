//! Counts objects by type and generation. Parts of the heap are counted in parallel.

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::progress::Progress;
use crate::runtimes::api::{FREE, Generation, Heap, HeapRange, Object, TypeIndex, TypeInfo, UnwalkedRanges, Walker};

/// Size in bytes from which free blocks are listed, as SOS does.
const LARGE_FREE: u64 = 512 << 10;

/// Number of types by which a table of tallies grows.
const TYPE_GROWTH: usize = 256;

/// Number and size of a set of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of objects.
    pub count: u64,
    /// Sum of their sizes in bytes, without padding.
    pub size: u64,
}

impl Tally {
    /// Returns the sum of both tallies.
    pub fn plus(self, other: Tally) -> Tally {
        Tally { count: self.count.saturating_add(other.count), size: self.size.saturating_add(other.size) }
    }

    pub(crate) fn add(&mut self, count: u64, size: u64) {
        *self = self.plus(Tally { count, size });
    }
}

/// Criteria for the objects to count. `None` does not restrict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Only objects in the generation with this name.
    pub generation: Option<&'static str>,
    /// Only objects in the heap with this number.
    pub heap: Option<u32>,
    /// Minimum size in bytes.
    pub min: Option<u64>,
    /// Maximum size in bytes.
    pub max: Option<u64>,
    /// Only objects that begin in this range.
    pub range: Option<AddrRange>,
}

impl Selection {
    pub(super) fn includes(&self, heap_range: &HeapRange) -> bool {
        self.generation.is_none_or(|g| g == heap_range.generation.name)
            && self.heap.is_none_or(|h| h == heap_range.heap)
            && self.range.is_none_or(|range| range.intersect(&heap_range.range).is_some())
    }

    /// Whether the selection includes an object. The object's heap range must be included.
    pub(super) fn has(&self, object: &Object) -> bool {
        self.min.is_none_or(|min| object.size >= min)
            && self.max.is_none_or(|max| object.size <= max)
            && self.range.is_none_or(|range| range.contains(object.addr))
    }
}

/// Count and size of the objects of one type.
#[derive(Clone, Debug)]
pub struct TypeStat {
    /// Index of the type.
    pub kind: TypeIndex,
    /// Data of the type.
    pub info: TypeInfo,
    /// All objects of the type.
    pub total: Tally,
    /// Objects by generation, in the order of [`Heap::generations`].
    pub by_generation: Vec<Tally>,
}

/// A large block of free space between objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlock {
    /// Start address.
    pub addr: Addr,
    /// Size in bytes.
    pub size: u64,
    /// Generation of the heap range that contains it.
    pub generation: Generation,
    /// Number of its heap.
    pub heap: u32,
    /// The next object and its type. `None` at the end of the part.
    pub next: Option<(Addr, TypeIndex)>,
}

/// Contents of a heap by type.
#[derive(Clone, Debug, Default)]
pub struct HeapStat {
    /// Counts by type, largest total size first.
    pub types: Vec<TypeStat>,
    /// Free blocks of at least 512 KiB, sorted by address.
    pub free_blocks: Vec<FreeBlock>,
    /// Number of free blocks left out of the list.
    pub more_free_blocks: u64,
    /// Ranges that could not be walked.
    pub unwalked: UnwalkedRanges,
    /// Bytes that belong to allocators and are unused.
    pub unused: u64,
}

/// The counts of one thread.
struct ThreadCounts<'h> {
    walker: Box<dyn Walker + 'h>,
    /// Indexed by generation, then by type.
    tallies: Vec<Vec<Tally>>,
    blocks: Vec<FreeBlock>,
    unwalked: UnwalkedRanges,
}

/// Counts all objects of `heap` that match `selection`.
pub fn stat(heap: &dyn Heap, selection: &Selection, progress: &Progress) -> HeapStat {
    let ranges: Vec<&HeapRange> = heap.ranges().iter().filter(|p| selection.includes(p)).collect();
    progress.start(ranges.iter().map(|p| p.range.len()).fold(0, u64::saturating_add));
    let fresh = || ThreadCounts {
        walker: heap.walker(),
        tallies: vec![Vec::new(); heap.generations().len()],
        blocks: Vec::new(),
        unwalked: UnwalkedRanges::default(),
    };
    let shares: Vec<ThreadCounts<'_>> = ranges
        .par_iter()
        .fold(fresh, |mut share, heap_range| {
            count(&mut share, heap_range, selection);
            progress.add(heap_range.range.len());
            share
        })
        .collect();
    join(heap, shares)
}

fn join(heap: &dyn Heap, shares: Vec<ThreadCounts<'_>>) -> HeapStat {
    let mut out = HeapStat::default();
    let mut all: Vec<Vec<Tally>> = vec![vec![Tally::default(); heap.generations().len()]; heap.types()];
    for share in shares {
        for (generation, tallies) in share.tallies.iter().enumerate() {
            for (sums, tally) in all.iter_mut().zip(tallies) {
                if let Some(sum) = sums.get_mut(generation) {
                    *sum = sum.plus(*tally);
                }
            }
        }
        out.free_blocks.extend(share.blocks);
        out.unwalked.merge(share.unwalked);
        out.unused = out.unused.saturating_add(share.walker.unused());
    }
    for (kind, by_generation) in (0..).map(TypeIndex).zip(all) {
        let total = by_generation.iter().fold(Tally::default(), |sum, t| sum.plus(*t));
        let Some(info) = heap.type_info(kind).filter(|_| total.count > 0) else { continue };
        out.types.push(TypeStat { kind, info, total, by_generation });
    }
    out.types.sort_unstable_by_key(|t| (std::cmp::Reverse(t.total.size), t.info.address));
    out.free_blocks.sort_by_key(|b| b.addr);
    out.more_free_blocks = out.free_blocks.len().saturating_sub(limits::MAX_FREE_BLOCKS) as u64;
    out.free_blocks.truncate(limits::MAX_FREE_BLOCKS);
    out
}

fn count(share: &mut ThreadCounts<'_>, heap_range: &HeapRange, selection: &Selection) {
    let ThreadCounts { walker, tallies, blocks, unwalked } = share;
    let Some(tallies) = tallies.get_mut(usize::from(heap_range.generation.number)) else { return };
    let mut after_block = false;
    walker.walk(heap_range, unwalked, &mut |object| {
        if after_block && let Some(block) = blocks.last_mut() {
            block.next = Some((object.addr, object.kind));
            after_block = false;
        }
        if object.kind == FREE && object.size >= LARGE_FREE {
            let (generation, heap) = (heap_range.generation, heap_range.heap);
            blocks.push(FreeBlock { addr: object.addr, size: object.size, generation, heap, next: None });
            after_block = true;
        }
        if !selection.has(object) {
            return;
        }
        let index = object.kind.0 as usize;
        if index >= tallies.len() {
            tallies.resize(index.saturating_add(TYPE_GROWTH), Tally::default());
        }
        if let Some(tally) = tallies.get_mut(index) {
            tally.count = tally.count.wrapping_add(1);
            tally.size = tally.size.saturating_add(object.size);
        }
    });
}

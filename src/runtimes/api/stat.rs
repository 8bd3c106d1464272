//! Counts objects by type and generation. Parts of the heap are counted in parallel.

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::progress::Progress;
use crate::runtimes::api::{FREE, Generation, Heap, Losses, Part, TypeIndex, TypeInfo, Walker};

/// Size in bytes from which free blocks are listed, as SOS does.
const LARGE_FREE: u64 = 512 << 10;

/// Number of types by which a table of tallies grows.
const ROOM: usize = 256;

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
}

impl Selection {
    pub(super) fn takes_part(&self, part: &Part) -> bool {
        self.generation.is_none_or(|g| g == part.generation.name) && self.heap.is_none_or(|h| h == part.heap)
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
    pub losses: Losses,
    /// Bytes that belong to allocators and are unused.
    pub unused: u64,
}

/// The counts of one thread.
struct Share<'h> {
    walker: Box<dyn Walker + 'h>,
    /// Indexed by generation, then by type.
    tallies: Vec<Vec<Tally>>,
    blocks: Vec<FreeBlock>,
    losses: Losses,
}

/// Counts all objects of `heap` that match `selection`.
pub fn stat(heap: &dyn Heap, selection: &Selection, progress: &Progress) -> HeapStat {
    let parts: Vec<&Part> = heap.parts().iter().filter(|p| selection.takes_part(p)).collect();
    progress.start(parts.iter().map(|p| p.range.len()).fold(0, u64::saturating_add));
    let fresh = || Share {
        walker: heap.walker(),
        tallies: vec![Vec::new(); heap.generations().len()],
        blocks: Vec::new(),
        losses: Losses::default(),
    };
    let shares: Vec<Share<'_>> = parts
        .par_iter()
        .fold(fresh, |mut share, part| {
            count(&mut share, part, selection);
            progress.add(part.range.len());
            share
        })
        .collect();
    join(heap, shares)
}

fn join(heap: &dyn Heap, shares: Vec<Share<'_>>) -> HeapStat {
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
        out.losses.merge(share.losses);
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

fn count(share: &mut Share<'_>, part: &Part, selection: &Selection) {
    let Share { walker, tallies, blocks, losses } = share;
    let Some(tallies) = tallies.get_mut(usize::from(part.generation.number)) else { return };
    let (min, max) = (selection.min.unwrap_or(0), selection.max.unwrap_or(u64::MAX));
    let mut after_block = false;
    walker.walk(part, losses, &mut |object| {
        if after_block && let Some(block) = blocks.last_mut() {
            block.next = Some((object.addr, object.kind));
            after_block = false;
        }
        if object.kind == FREE && object.size >= LARGE_FREE {
            let (generation, heap) = (part.generation, part.heap);
            blocks.push(FreeBlock { addr: object.addr, size: object.size, generation, heap, next: None });
            after_block = true;
        }
        if object.size < min || object.size > max {
            return;
        }
        let index = object.kind.0 as usize;
        if index >= tallies.len() {
            tallies.resize(index.saturating_add(ROOM), Tally::default());
        }
        if let Some(tally) = tallies.get_mut(index) {
            tally.count = tally.count.wrapping_add(1);
            tally.size = tally.size.saturating_add(object.size);
        }
    });
}

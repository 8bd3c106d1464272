//! malloc heaps of glibc and musl, found without symbols: their arenas, groups, blocks and free lists.
//!
//! glibc's heaps are arenas of chunks. All files except `mallocng` are about them. musl's heaps are groups of slots.
//! `blocks`, `account`, `allocator` and `claim` serve every allocator, also those that `foreign` finds.
//!
//! | file | contents |
//! |---|---|
//! | `shape` | offsets and constants of the layout table as one struct |
//! | `find` | the main arena by the shape of its bins; the others by the arena ring and heap_info |
//! | `params` | `mp_`, by conditions that its fields must satisfy |
//! | `arena` | fields of each arena, and the memory ranges of its chunks |
//! | `mapped_chunk` | a chunk with its own mapping, by its header |
//! | `mapped` | where those chunks are |
//! | `tcache` | the threads' caches of freed blocks |
//! | `lists` | fastbins and bins; all free chunks in one sorted list |
//! | `walk` | the walk from chunk to chunk, and past damage |
//! | `all` | every block, with the lists of free ones |
//! | `blocks` | which block contains an address |
//! | `range_index` | which range of the heap contains an address |
//! | `numbers` | used blocks, numbered by address |
//! | `queue` | a work queue of blocks, with neighbours together |
//! | `account` | used, free and overhead from the lists alone |
//! | `allocator` | which allocators the process has |
//! | `claim` | claims for the map |
//! | `mallocng` | musl's malloc |
//! | `extents` | heaps of other allocators, found by `foreign` |
//!
//! Structures of glibc: malloc/malloc.c `struct malloc_state`, `malloc_chunk`, `malloc_par`, `tcache_perthread_struct`;
//! malloc/arena.c `heap_info`. Offsets are in layout/tables/glibc-malloc-64.json. docs/malloc.md says what is exact.

mod account;
mod all;
mod allocator;
mod arena;
mod blocks;
mod claim;
pub mod extents;
mod find;
mod lists;
mod mallocng;
mod mapped;
mod mapped_chunk;
mod numbers;
mod params;
mod queue;
mod range_index;
mod shape;
mod tcache;
mod walk;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::layout::LayoutError;
use crate::map::{Base, Claims, Confidence};
use crate::native::foreign::{self, UnreadHeap};
use crate::phase::Phase;
use crate::process::Process;
use crate::sums::SaturatingSum;
use crate::words::AllocatorName;

pub use account::{UsageSplit, free_pages, split};
pub use all::read_blocks;
pub use all::warn_cache_limit;
pub use allocator::Allocator;
pub use arena::{Arena, ChunkRange};
pub use blocks::{Block, BlockId, BlockMarks, Blocks};
pub use claim::{claim, claim_mapped, claim_musl};
pub use extents::ExtentHeap;
pub use lists::FreeLists;
pub use mallocng::{Mallocng, Slot, SlotState, Source};
pub use mapped_chunk::MappedChunk;
pub use numbers::BlockNumbers;
pub use params::Params;
pub use queue::BlockQueue;
pub use walk::{Chunk, Damage, State, UnwalkedRange, WalkSummary};

use find::Finder;
use shape::Shape;
use walk::Walker;

/// A heap of glibc's malloc.
#[derive(Clone, Debug)]
pub struct MallocHeap {
    /// Committed addresses.
    pub range: AddrRange,
    /// Address space reserved for growth, above `range`.
    pub reserve: AddrRange,
    /// The arena's `malloc_state`; for the main arena, its bins. `None` if the heap was only guessed from its contents.
    pub arena: Option<Addr>,
    /// Whether the heap belongs to the main arena (the brk area).
    pub main: bool,
    /// Addresses from the first chunk to the end of the part in use.
    pub chunks: AddrRange,
    /// Confidence that this is a heap.
    pub confidence: Confidence,
    /// How the heap was found.
    pub evidence: String,
}

/// The malloc heaps of one process: glibc's and musl's. Usually one of the two is empty.
#[derive(Debug, Default)]
pub struct Malloc {
    /// glibc's heaps, the main one first.
    pub heaps: Vec<MallocHeap>,
    /// glibc's arenas, the main one first, then by address.
    pub arenas: Vec<Arena>,
    /// glibc's parameters and counts (`mp_`).
    pub params: Option<Params>,
    /// Parameters and counts of further copies of glibc, which `dlmopen` loads.
    pub more_params: Vec<Params>,
    /// glibc's chunks with their own mappings (IS_MMAPPED), by address.
    pub mapped: Vec<MappedChunk>,
    /// Index into [`Process::modules`] of the module that contains the main arena.
    pub module: Option<usize>,
    /// Indices of the modules with the main arenas of further copies of glibc.
    pub more_modules: Vec<usize>,
    /// musl's heap.
    pub musl: Mallocng,
    /// Heaps of other allocators whose blocks are not read yet.
    pub unread: Vec<UnreadHeap>,
    others: OnceLock<Vec<ExtentHeap>>,
    shape: Option<Shape>,
    /// Ranges of chunks by address, each with the index of its arena.
    parts: Vec<(AddrRange, usize)>,
}

/// Finds the heaps and arenas of glibc, and musl's heap.
///
/// # Errors
/// Only if the bundled table lacks a field.
pub fn find(process: &Process, base: &Base) -> Result<Malloc, LayoutError> {
    let _phase = process.enter(Phase::Malloc);
    let shape = Shape::bundled()?;
    let mut finder = Finder { memory: &process.memory, base, shape: &shape, state_size: None };
    let mut found = Malloc::default();
    let mut states = BTreeSet::new();
    let mut mains = finder.main_arenas(process);
    // Only the first C library of a process uses the break. Its heap is exact.
    let uses_break =
        |main: &find::MainArena| finder.main_heap(main, None).is_some_and(|heap| heap.confidence == Confidence::Exact);
    if mains.len() > 1 {
        mains.sort_by_key(|main| !uses_break(main));
    }
    let mut mains = mains.into_iter();
    let main = mains.next();
    let mut start = None;
    if let Some(main) = &main {
        let (at, others) = finder.ring(main);
        start = at;
        states.extend(others);
        finder.state_size = start.map(|s| main.bins.since(s).saturating_add_signed(main.layout.end));
        let fastbins = start.is_none_or(|s| main.bins.since(s) != shape.start_without_fastbins);
        let contiguous = start.and_then(|s| arena::is_contiguous(&finder, s));
        found.heaps.extend(finder.main_heap(main, contiguous));
        found.params = params::find(&finder, main, found.heaps.first(), fastbins);
        found.module = Some(main.module);
    }
    found.heaps.extend(finder.arena_heaps(&states, process).into_values());
    if !found.heaps.iter().any(|h| h.main) {
        found.heaps.extend(finder.guess_main_heap(process));
    }
    found.arenas = arena::all(&finder, main.as_ref(), start, &mut found.heaps, found.params.as_ref());
    for main in mains {
        found.add_library(&finder, &main);
    }
    let parts = found.arenas.iter().enumerate().flat_map(|(i, a)| a.parts.iter().map(move |p| (p.chunks, i)));
    found.parts = parts.collect();
    found.parts.sort_unstable();
    found.shape = Some(shape);
    found.musl = mallocng::find(process, base)?;
    Ok(found)
}

impl Malloc {
    /// Adds the main arena of a further copy of glibc, unless its memory is known already. Its other arenas are found
    /// like those of the first copy, by their heaps.
    fn add_library(&mut self, finder: &Finder<'_>, main: &find::MainArena) {
        let start = finder.ring(main).0;
        let fastbins = start.is_none_or(|s| main.bins.since(s) != finder.shape.start_without_fastbins);
        let contiguous = start.and_then(|s| arena::is_contiguous(finder, s));
        let mut heaps: Vec<MallocHeap> = finder.main_heap(main, contiguous).into_iter().collect();
        let params = params::find(finder, main, heaps.first(), fastbins);
        let arenas = arena::all(finder, Some(main), start, &mut heaps, params.as_ref());
        let known = |range: &AddrRange| self.heaps.iter().any(|heap| heap.range.intersect(range).is_some());
        if heaps.iter().any(|heap| known(&heap.range)) {
            return;
        }
        self.heaps.extend(heaps);
        self.arenas.extend(arenas);
        self.more_params.extend(params);
        self.more_modules.push(main.module);
    }

    /// Returns the number of chunks with their own mappings and the bytes of these mappings, as malloc counts them,
    /// summed over all copies of glibc. `None` if the counts of one are unknown.
    pub fn counted_mappings(&self) -> Option<(u64, u64)> {
        let all = || self.params.iter().chain(&self.more_params);
        let known = self.params.is_some() && self.more_params.len() == self.more_modules.len();
        let sum = |of: fn(&Params) -> u64| all().map(of).saturating_sum();
        known.then(|| (sum(|p| p.n_mmaps), sum(|p| p.mmapped_mem)))
    }

    /// Returns the heaps of other allocators. They are read on the first call.
    pub fn others(&self, process: &Process) -> &[ExtentHeap] {
        self.others.get_or_init(|| self.unread.iter().filter_map(|heap| foreign::read_heap(process, heap)).collect())
    }

    /// Whether no heap of any allocator was found.
    pub fn is_empty(&self) -> bool {
        self.heaps.is_empty() && self.mapped.is_empty() && self.musl.is_empty() && self.unread.is_empty()
    }

    /// Whether the blocks of both can be visited and come from the same allocator.
    pub fn is_like(&self, other: &Malloc) -> bool {
        let whose = |m: &Malloc| {
            let first = m.unread.first().map(|heap| heap.name);
            let libc = [(m.musl.is_empty(), AllocatorName::Musl), (m.arenas.is_empty(), AllocatorName::Glibc)];
            first.or_else(|| libc.into_iter().find(|(none, _)| !none).map(|(_, name)| name))
        };
        whose(self).is_some_and(|name| whose(other) == Some(name))
    }

    /// Returns the number of blocks with their own mappings, and their bytes.
    pub fn own_mappings(&self) -> (u64, u64) {
        let singles = self.musl.groups.iter().filter(|g| g.is_single() && g.used != 0).map(|g| g.stride);
        let sizes = self.mapped.iter().map(|m| m.size).chain(singles);
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, u64::saturating_add(bytes, size)))
    }

    /// Finds the chunks with their own mappings, in memory that nobody has claimed.
    pub fn find_mapped(&mut self, process: &Process, base: &Base, claims: &Claims) {
        if let Some(shape) = &self.shape {
            let _phase = process.enter(Phase::MappedChunks);
            let finder = Finder { memory: &process.memory, base, shape, state_size: None };
            self.mapped = mapped::find(process, &finder, self.counted_mappings(), !self.arenas.is_empty(), claims);
        }
    }

    /// Returns the allocators that the process has.
    pub fn allocators(&self, process: &Process) -> Vec<Allocator> {
        allocator::find(process, self)
    }

    /// Visits the chunks of all arenas, with the ranges in parallel.
    ///
    /// `make` makes one `A` per range from the arena's index. The results are in the order of arenas and addresses.
    pub fn walk<A: Send>(
        &self,
        process: &Process,
        lists: &FreeLists,
        make: impl Fn(usize) -> A + Sync,
        visit: impl Fn(&mut A, &Chunk) + Sync,
    ) -> Vec<(usize, ChunkRange, A, WalkSummary)> {
        let Some(shape) = &self.shape else { return Vec::new() };
        let parts = self.arenas.iter().enumerate().flat_map(|(i, a)| a.parts.iter().map(move |p| (i, a, *p)));
        let parts: Vec<_> = parts.collect();
        let _phase = process.enter(Phase::Blocks);
        let walked = parts.into_par_iter().map(|(i, arena, part)| {
            let mut sum = make(i);
            let walked = Walker::new(process.target(), shape, lists).walk(arena, &part, |c| visit(&mut sum, c));
            (i, part, sum, walked)
        });
        walked.collect()
    }

    /// Whether a chunk of this size may be a thread's cache. Caches of ended threads have no thread that points to
    /// them.
    pub fn is_cache_size(&self, size: u64) -> bool {
        self.shape.as_ref().is_some_and(|s| s.tcaches.iter().any(|t| t.chunk == size))
    }

    /// Largest size in bytes of a thread's cache, over all known forms of the struct.
    pub fn longest_cache(&self) -> u64 {
        self.shape.iter().flat_map(|s| &s.tcaches).map(|t| t.chunk).max().unwrap_or(0)
    }

    /// Returns how many bytes of a chunk the program can use. They extend to the size field of the next chunk.
    pub fn usable(&self, size: u64) -> u64 {
        self.shape.as_ref().map_or(0, |s| size.saturating_sub(s.chunk.mem - s.chunk.size))
    }

    /// Returns how many bytes the program can use of a chunk with its own mapping.
    ///
    /// Up to glibc 2.42 such a chunk ends with its mapping. In later versions there is room for a next header after it,
    /// as after any chunk.
    pub fn usable_of_mapped(&self, c: &MappedChunk) -> u64 {
        let to_the_end = c.chunk.saturating_add(c.size) >= c.range.end;
        if to_the_end {
            self.shape.as_ref().map_or(0, |s| c.size.saturating_sub(s.chunk.mem))
        } else {
            self.usable(c.size)
        }
    }

    /// Returns the address that malloc returned for the chunk at `chunk`.
    pub fn block(&self, chunk: Addr) -> Addr {
        self.shape.as_ref().map_or(chunk, |s| chunk.saturating_add(s.chunk.mem))
    }

    /// Returns the index of the arena that a chunk at `addr` would belong to.
    pub fn arena_of(&self, addr: Addr) -> Option<usize> {
        let i = self.parts.partition_point(|(range, _)| range.end <= addr);
        self.parts.get(i).filter(|(range, _)| range.contains(addr)).map(|(_, arena)| *arena)
    }
}

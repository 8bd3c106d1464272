//! malloc of the C libraries without symbols: where its heaps are, and what lies in them. glibc's is arenas of chunks, and
//! all files but `mallocng` are about it; musl's is groups of slots. What is asked of blocks, whoever gave them out, are
//! `blocks`, `account`, `allocator` and `claim`.
//!
//! | file | does |
//! |---|---|
//! | `shape` | the table's numbers as one struct |
//! | `find` | the main arena by the shape of its bins, the others by ring and heap_info |
//! | `params` | `mp_`, by what its fields must satisfy |
//! | `arena` | fields of each arena, and the parts of memory its chunks lie in |
//! | `mapped_chunk` | a chunk with a mapping of its own, by its header |
//! | `mapped` | where those chunks are |
//! | `tcache` | the threads' caches of freed blocks |
//! | `lists` | fastbins and bins, and all free chunks in one sorted list |
//! | `walk` | from chunk to chunk, and past what is none |
//! | `all` | every block, with the lists of free ones |
//! | `blocks` | which block an address is in |
//! | `places` | which part of the heap it is in |
//! | `queue` | blocks to be looked at, neighbours together |
//! | `account` | used, free and overhead from the lists alone |
//! | `allocator` | which allocators the process has |
//! | `claim` | what of all this goes into the map |
//! | `mallocng` | musl's malloc |
//! | `extents` | heaps of other allocators, as `foreign` finds them |
//!
//! Structures of glibc: malloc/malloc.c `struct malloc_state`, `malloc_chunk`,
//! `malloc_par`, `tcache_perthread_struct`; malloc/arena.c `heap_info`. Offsets
//! in layout/tables/glibc-malloc-64.json. docs/malloc.md tells what is exact.

mod account;
mod all;
mod allocator;
mod arena;
mod blocks;
mod claim;
pub(crate) mod extents;
mod find;
mod lists;
mod mallocng;
mod mapped;
mod mapped_chunk;
mod params;
mod places;
mod queue;
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
use crate::words::AllocatorName;

pub use account::{Split, split};
pub use all::read_blocks;
pub(crate) use all::tell_more_caches;
pub use allocator::Allocator;
pub use arena::{Arena, Part};
pub use blocks::{Block, BlockId, BlockMarks, Blocks};
pub use claim::{claim, claim_mapped, claim_musl};
pub use extents::ExtentHeap;
pub use lists::FreeLists;
pub use mallocng::{Mallocng, Slot, SlotState, Source};
pub use mapped_chunk::MappedChunk;
pub use params::Params;
pub use queue::BlockQueue;
pub use walk::{Chunk, Damage, Lost, State, Walked};

use find::Finder;
use shape::Shape;
use walk::Walker;

/// One heap of malloc.
#[derive(Clone, Debug)]
pub struct MallocHeap {
    /// Committed addresses.
    pub range: AddrRange,
    /// Address space kept for its growth, above the range.
    pub reserve: AddrRange,
    /// Its arena's `malloc_state` (of the main arena: its bins); `None` for a heap
    /// known by its look only.
    pub arena: Option<Addr>,
    /// Whether it belongs to the main arena (the brk area).
    pub main: bool,
    /// Where its chunks lie: from the first to the end of what is in use.
    pub chunks: AddrRange,
    /// How sure.
    pub confidence: Confidence,
    /// How it is known.
    pub evidence: String,
}

/// malloc in one process: what glibc's has, and what musl's. Mostly one of them is empty.
#[derive(Debug, Default)]
pub struct Malloc {
    /// Its heaps, the main one first.
    pub heaps: Vec<MallocHeap>,
    /// Its arenas, the main one first, then by address.
    pub arenas: Vec<Arena>,
    /// Its parameters and counts (`mp_`).
    pub params: Option<Params>,
    /// Chunks with a mapping of their own, by address.
    pub mapped: Vec<MappedChunk>,
    /// Index into [`Process::modules`] of what holds the main arena.
    pub module: Option<usize>,
    /// musl's.
    pub musl: Mallocng,
    /// Those of other allocators, whose blocks nobody has read yet.
    pub(crate) unread: Vec<UnreadHeap>,
    others: OnceLock<Vec<ExtentHeap>>,
    shape: Option<Shape>,
    /// Where chunks lie, by address, and the arena's index.
    parts: Vec<(AddrRange, usize)>,
}

/// Find heaps and arenas.
///
/// # Errors
/// Only where the bundled table lacks a field.
pub fn find(process: &Process, base: &Base) -> Result<Malloc, LayoutError> {
    let _phase = process.enter(Phase::Malloc);
    let shape = Shape::bundled()?;
    let mut finder = Finder { memory: &process.memory, base, shape: &shape, state_size: None };
    let mut found = Malloc::default();
    let mut states = BTreeSet::new();
    let main = finder.main_arena(process);
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
    found.heaps.extend(finder.arena_heaps(&states).into_values());
    if !found.heaps.iter().any(|h| h.main) {
        found.heaps.extend(finder.guess_main_heap(process));
    }
    found.arenas = arena::all(&finder, main.as_ref(), start, &mut found.heaps, found.params.as_ref());
    let parts = found.arenas.iter().enumerate().flat_map(|(i, a)| a.parts.iter().map(move |p| (p.chunks, i)));
    found.parts = parts.collect();
    found.parts.sort_unstable();
    found.shape = Some(shape);
    found.musl = mallocng::find(process, base)?;
    Ok(found)
}

impl Malloc {
    /// Heaps of other allocators, read when they are first asked for.
    pub fn others(&self, process: &Process) -> &[ExtentHeap] {
        self.others.get_or_init(|| self.unread.iter().filter_map(|heap| foreign::read_heap(process, heap)).collect())
    }

    /// Whether no heap of it was found.
    pub fn is_empty(&self) -> bool {
        self.heaps.is_empty() && self.mapped.is_empty() && self.musl.is_empty() && self.unread.is_empty()
    }

    /// Whether the blocks of both can be visited, and come from the same allocator.
    pub fn is_like(&self, other: &Malloc) -> bool {
        let whose = |m: &Malloc| {
            let first = m.unread.first().map(|heap| heap.name);
            let libc = [(m.musl.is_empty(), AllocatorName::Musl), (m.arenas.is_empty(), AllocatorName::Glibc)];
            first.or_else(|| libc.into_iter().find(|(none, _)| !none).map(|(_, name)| name))
        };
        whose(self).is_some_and(|name| whose(other) == Some(name))
    }

    /// Blocks with mappings of their own, and their bytes.
    pub fn own_mappings(&self) -> (u64, u64) {
        let singles = self.musl.groups.iter().filter(|g| g.is_single() && g.used != 0).map(|g| g.stride);
        let sizes = self.mapped.iter().map(|m| m.size).chain(singles);
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, u64::saturating_add(bytes, size)))
    }

    /// Find the chunks with a mapping of their own, in what nobody has claimed.
    pub fn find_mapped(&mut self, process: &Process, base: &Base, claims: &Claims) {
        if let Some(shape) = &self.shape {
            let _phase = process.enter(Phase::MappedChunks);
            let finder = Finder { memory: &process.memory, base, shape, state_size: None };
            self.mapped = mapped::find(process, &finder, self.params.as_ref(), !self.arenas.is_empty(), claims);
        }
    }

    /// Which allocators the process has.
    pub fn allocators(&self, process: &Process) -> Vec<Allocator> {
        allocator::find(process, self)
    }

    /// Visit the chunks of all arenas, part by part, several parts at a time. Each
    /// has its own `A`, made for an arena's index; the answer is by arena and address.
    pub fn walk<A: Send>(
        &self,
        process: &Process,
        lists: &FreeLists,
        make: impl Fn(usize) -> A + Sync,
        visit: impl Fn(&mut A, &Chunk) + Sync,
    ) -> Vec<(usize, Part, A, Walked)> {
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

    /// Whether a chunk has the size of a thread's cache: it may be one that no
    /// thread points to any more.
    pub fn is_cache_size(&self, size: u64) -> bool {
        self.shape.as_ref().is_some_and(|s| s.tcaches.iter().any(|t| t.chunk == size))
    }

    /// The most bytes that a thread's cache of any form has.
    pub fn longest_cache(&self) -> u64 {
        self.shape.iter().flat_map(|s| &s.tcaches).map(|t| t.chunk).max().unwrap_or(0)
    }

    /// Bytes of a chunk that the program can use: to the size of the next.
    pub fn usable(&self, size: u64) -> u64 {
        self.shape.as_ref().map_or(0, |s| size.saturating_sub(s.chunk.mem - s.chunk.size))
    }

    /// The same of a chunk with a mapping of its own. Up to glibc 2.42 it ends with the mapping; later there is room for a
    /// next one's header behind it, as behind any.
    pub fn usable_of_mapped(&self, c: &MappedChunk) -> u64 {
        let to_the_end = c.chunk.saturating_add(c.size) >= c.range.end;
        if to_the_end {
            self.shape.as_ref().map_or(0, |s| c.size.saturating_sub(s.chunk.mem))
        } else {
            self.usable(c.size)
        }
    }

    /// From a chunk to what malloc returned.
    pub fn block(&self, chunk: Addr) -> Addr {
        self.shape.as_ref().map_or(chunk, |s| chunk.saturating_add(s.chunk.mem))
    }

    /// The arena that a chunk at `addr` would be of.
    pub fn arena_of(&self, addr: Addr) -> Option<usize> {
        let i = self.parts.partition_point(|(range, _)| range.end <= addr);
        self.parts.get(i).filter(|(range, _)| range.contains(addr)).map(|(_, arena)| *arena)
    }
}

//! Arenas: the fields of their `malloc_state`, and the memory ranges of their chunks.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::map::Confidence;
use crate::memory::walk::Walks;
use crate::native::malloc::find::{Finder, MainArena};
use crate::native::malloc::shape::StateShape;
use crate::native::malloc::{MallocHeap, Params};
use crate::phase::Phase;

/// A memory range of consecutive chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// Addresses from the first chunk to the end of the part in use.
    pub chunks: AddrRange,
    /// Committed addresses. They include malloc's own structures before the chunks, and memory returned to the system
    /// after them.
    pub committed: AddrRange,
}

/// An arena of glibc's malloc. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Arena {
    /// Start of the `malloc_state`. `None` if unknown.
    pub state: Option<Addr>,
    /// Address of the `bins` array. `None` if only a heap was guessed from its contents.
    pub bins: Option<Addr>,
    /// Whether this is the main arena.
    pub main: bool,
    /// Whether the arena's memory is contiguous and ends at the program break.
    pub contiguous: bool,
    /// The top chunk.
    pub top: Option<Addr>,
    /// The remainder of the last small chunk that was split.
    pub last_remainder: Option<Addr>,
    /// Number of threads that use the arena. glibc has this field since 2.23.
    pub attached_threads: Option<u64>,
    /// Bytes obtained from the system and not returned.
    pub system_mem: Option<u64>,
    /// Maximum of `system_mem` so far.
    pub max_system_mem: Option<u64>,
    /// Memory ranges of its chunks, by address.
    pub parts: Vec<ChunkRange>,
    /// Confidence that this is an arena.
    pub confidence: Confidence,
    /// Address of the fastbins. `None` if the arena has none or they were not found.
    pub(super) fastbins: Option<Addr>,
}

impl Arena {
    /// Returns the address that identifies the arena: its `malloc_state`, else its bins, else its memory.
    pub fn address(&self) -> Addr {
        let memory = self.parts.first().map_or(Addr::NULL, |p| p.committed.start);
        self.state.or(self.bins).unwrap_or(memory)
    }

    /// Returns the committed bytes.
    pub fn committed(&self) -> u64 {
        self.parts.iter().map(|p| p.committed.len()).fold(0, u64::saturating_add)
    }

    /// Whether one of the arena's chunks can be at `addr`.
    pub(super) fn holds(&self, addr: Addr) -> bool {
        let i = self.parts.partition_point(|p| p.chunks.end <= addr);
        self.parts.get(i).is_some_and(|p| p.chunks.contains(addr))
    }
}

/// Whether the main arena at `start` is contiguous (its NONCONTIGUOUS flag is clear).
pub(super) fn is_contiguous(finder: &Finder<'_>, start: Addr) -> Option<bool> {
    let flags = finder.memory.u32(start.checked_add(finder.shape.flags)?).ok()?;
    Some(u64::from(flags) & finder.shape.noncontiguous == 0)
}

/// Returns all arenas: the main one, then the others by address. If the main arena is not contiguous, its further heaps
/// are added to `heaps`.
pub(super) fn all(
    finder: &Finder<'_>,
    main: Option<&MainArena>,
    start: Option<Addr>,
    heaps: &mut Vec<MallocHeap>,
    params: Option<&Params>,
) -> Vec<Arena> {
    let mut out = Vec::new();
    if let Some(main) = main {
        let mut arena = read(finder, main.bins, Some(main.layout));
        arena.main = true;
        arena.state = start;
        arena.contiguous = start.is_none_or(|s| is_contiguous(finder, s) != Some(false));
        arena.fastbins = start.and_then(|s| fastbins(finder, main.bins, main.bins.since(s), &main.layout));
        if !heaps.iter().any(|h| h.main && h.confidence == Confidence::Exact) {
            heaps.extend(pieces(finder, main, &arena, heaps, params));
        }
        out.push(arena);
    } else if heaps.iter().any(|h| h.main) {
        out.push(Arena { main: true, confidence: Confidence::Heuristic, ..empty() });
    }
    let distance = main.zip(start).map(|(m, s)| m.bins.since(s));
    let mut by_state: BTreeMap<Addr, Vec<ChunkRange>> = BTreeMap::new();
    for h in heaps.iter() {
        let part = ChunkRange { chunks: h.chunks, committed: h.range };
        match (h.main, h.arena) {
            (false, Some(state)) => by_state.entry(state).or_default().push(part),
            _ => {
                if let Some(arena) = out.first_mut() {
                    arena.parts.push(part);
                }
            }
        }
    }
    for (state, parts) in by_state {
        let bins_at = |d: u64| state.checked_add(d).filter(|&bins| distance.is_some() || finder.are_bins(bins));
        let known = distance
            .into_iter()
            .chain(if distance.is_some() { None } else { Some(finder.shape.starts()) }.into_iter().flatten());
        let bins = known.filter_map(|d| Some((bins_at(d)?, d))).next();
        let mut arena = match bins {
            Some((bins, d)) => {
                let layout = main.map(|m| m.layout).or_else(|| finder.fitting_layout(bins));
                let mut arena = read(finder, bins, layout);
                arena.fastbins = layout.and_then(|l| fastbins(finder, bins, d, &l));
                arena
            }
            None => empty(),
        };
        arena.state = Some(state);
        arena.parts = parts;
        out.push(arena);
    }
    for arena in &mut out {
        // No process has memory there, and sums of addresses must not overflow.
        arena.parts.retain(|p| p.committed.end.get() <= u64::MAX - (1 << 20));
        arena.parts.sort_by_key(|p| p.chunks.start);
    }
    out
}

fn empty() -> Arena {
    Arena {
        state: None,
        bins: None,
        main: false,
        contiguous: false,
        top: None,
        last_remainder: None,
        attached_threads: None,
        system_mem: None,
        max_system_mem: None,
        parts: Vec::new(),
        confidence: Confidence::Derived,
        fastbins: None,
    }
}

fn read(finder: &Finder<'_>, bins: Addr, layout: Option<StateShape>) -> Arena {
    let Some(layout) = layout else { return Arena { bins: Some(bins), ..empty() } };
    let word = |offset: i64| finder.memory.u64(bins.wrapping_offset(offset)).ok();
    Arena {
        bins: Some(bins),
        top: word(layout.top).map(Addr::new),
        last_remainder: word(layout.last_remainder).map(Addr::new).filter(|a| !a.is_null()),
        attached_threads: layout.attached_threads.and_then(word),
        system_mem: word(layout.system_mem),
        max_system_mem: word(layout.max_system_mem),
        confidence: Confidence::Exact,
        ..empty()
    }
}

/// Returns the address of an arena's fastbins. The bins are `distance` bytes after the arena's start.
fn fastbins(finder: &Finder<'_>, bins: Addr, distance: u64, layout: &StateShape) -> Option<Addr> {
    let has = distance != finder.shape.start_without_fastbins;
    has.then_some(bins.wrapping_offset(layout.fastbins))
}

/// Returns the heaps of a noncontiguous main arena, except the heap with its top. They are the area that sbrk returned
/// first, and the mappings that contain chunks of its bins.
fn pieces(
    finder: &Finder<'_>,
    main: &MainArena,
    arena: &Arena,
    known: &[MallocHeap],
    params: Option<&Params>,
) -> Vec<MallocHeap> {
    let mut out: Vec<MallocHeap> = Vec::new();
    // Disjoint ranges, from start to end. A bin may have millions of chunks, in thousands of ranges.
    let mut taken: BTreeMap<Addr, Addr> =
        union(known.iter().map(|h| h.range).collect()).iter().map(|r| (r.start, r.end)).collect();
    let mut add = |addr: Addr, from: Option<Addr>, how: &str| {
        let Some(entry) = finder.base.at(addr).filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.write)) else {
            return;
        };
        let range = AddrRange::new(from.unwrap_or(entry.range.start), entry.range.end);
        let below = taken.range(..range.end).next_back();
        if range.is_empty() || below.is_some_and(|(_, &end)| end > range.start) {
            return;
        }
        taken.insert(range.start, range.end);
        out.push(MallocHeap {
            range,
            reserve: AddrRange::default(),
            arena: Some(main.bins),
            main: true,
            chunks: AddrRange::new(range.start.align_up(finder.shape.chunk.alignment), range.end),
            confidence: Confidence::Derived,
            evidence: format!("main_arena with bins at {}: {how}", main.bins),
        });
    };
    if let Some(base) = params.map(|p| p.sbrk_base) {
        add(base, Some(base), "mp_.sbrk_base");
    }
    let b = finder.shape.bins;
    let walks = Walks::new(Phase::Malloc, limits::MAX_FREE_CHUNKS);
    for k in 0..b.count {
        let head = main.bins.saturating_add(k * b.bin).saturating_sub(b.header);
        let mut before = head;
        let mut walk = walks.begin_cycle_only();
        let mut at = finder.memory.ptr(head.saturating_add(finder.shape.chunk.fd)).ok();
        while let Some(chunk) = at.filter(|&c| c != head && walk.step(c).is_ok()) {
            // A chunk that does not link back ends the list: what follows is not a list of chunks.
            let back = chunk.checked_add(finder.shape.chunk.bk).and_then(|a| finder.memory.ptr(a).ok());
            if back != Some(before) {
                break;
            }
            if !arena.holds(chunk) {
                add(chunk, None, "mapping that contains a chunk of its bins");
            }
            before = chunk;
            at = finder.memory.ptr(chunk.saturating_add(finder.shape.chunk.fd)).ok();
        }
    }
    out
}

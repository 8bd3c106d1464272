//! Used, free and overhead bytes of all memory labelled Malloc.
//!
//! Only malloc's own lists and counts are read. Chunks in no list are not visited.

use crate::addr::{Addr, AddrRange, PAGE};
use crate::map::{AddressMap, Kind};
use crate::memory::Memory;
use crate::native::malloc::{FreeLists, Malloc, SlotState};
use crate::phase::Phase;
use crate::process::Process;
use crate::sums::SaturatingSum;

/// Bytes of the kind Malloc by use. `used`, `free`, `overhead` and `unknown` add up to the size of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSplit {
    /// Bytes in chunks that the program owns, with headers.
    pub used: u64,
    /// Bytes in free chunks, in tops, and in memory that was returned to the system but is still mapped.
    pub free: u64,
    /// Bytes of `free` that were returned to the system, but are still mapped.
    pub released: u64,
    /// Bytes of malloc's own structures, and padding of aligned mappings.
    pub overhead: u64,
    /// Bytes of arenas whose lists cannot be followed.
    pub unknown: u64,
}

/// Divides the memory that the map labels Malloc.
pub fn split(process: &Process, map: &AddressMap, malloc: &Malloc) -> UsageSplit {
    let total = map.regions.iter().filter(|r| r.kind == Kind::Malloc).map(|r| r.range.len()).saturating_sum();
    let _phase = process.enter(Phase::Blocks);
    let mut out = UsageSplit::default();
    let Some(shape) = malloc.shape.as_ref().filter(|_| total > 0) else { return UsageSplit { unknown: total, ..out } };
    if !malloc.musl.is_empty() {
        out = malloc.musl.split();
    }
    let glibc = !malloc.arenas.is_empty();
    let lists = FreeLists::read(process, malloc, &[]);
    for (i, arena) in malloc.arenas.iter().enumerate() {
        let committed = arena.committed();
        let top = arena.top.and_then(|t| process.memory.u64(t.checked_add(shape.chunk.size)?).ok());
        let broken = lists.capped || lists.broken.iter().any(|(of, _)| of.is_none_or(|of| of == i));
        // A main arena without the break may have parts that were not found.
        let has_all_parts = arena.contiguous == arena.main || arena.system_mem == Some(committed);
        let whole = arena.bins.is_some() && has_all_parts;
        let (Some(top), false, true) = (top, broken, whole) else {
            out.unknown += committed;
            continue;
        };
        let chunks = arena.parts.iter().map(|p| p.chunks.len()).saturating_sum();
        let before: u64 = arena.parts.iter().map(|p| p.chunks.start.since(p.committed.start)).saturating_sum();
        let behind: u64 = arena.parts.iter().map(|p| p.committed.end.since(p.chunks.end)).saturating_sum();
        // Each heap except the last ends with two fenceposts.
        let marks = 2 * shape.chunk.fencepost * (arena.parts.len() as u64).saturating_sub(1);
        let listed: u64 = lists.sums.get(i).map_or(0, |sums| sums.iter().copied().saturating_sum());
        let free = listed.saturating_add(shape.size_of(top));
        if free.saturating_add(marks) > chunks {
            out.unknown += committed;
            continue;
        }
        out.used += chunks - free - marks;
        out.free += free + behind;
        out.released += behind;
        out.overhead += before + marks;
    }
    if glibc && out.used > 0 {
        lists.warn_missing_lists(process);
    }
    for c in &malloc.mapped {
        let chunk = AddrRange::sized(c.chunk, c.size);
        let free = lists.state_of(c.chunk).is_some();
        *(if free { &mut out.free } else { &mut out.used }) += chunk.len();
        out.overhead += c.range.len().saturating_sub(chunk.len());
    }
    // Another label may have won some of these bytes, or a heap may have no arena.
    let known = out.used + out.free + out.overhead + out.unknown;
    match known.checked_sub(total) {
        None => out.unknown += total - known,
        Some(0) => {}
        Some(over) => out = shrink(out, over),
    }
    out
}

/// Returns the free chunks and slots of at least a page, by address. They may never have been written, or may have been
/// returned to the system.
pub fn free_pages(process: &Process, malloc: &Malloc) -> Vec<AddrRange> {
    let _phase = process.enter(Phase::Blocks);
    let mut out = Vec::new();
    if let Some(shape) = &malloc.shape {
        let size_at = |chunk: Addr| process.memory.u64(chunk.checked_add(shape.chunk.size)?).ok();
        let lists = FreeLists::read(process, malloc, &[]);
        let listed = lists.since(0).map(|(at, _)| Addr::new(at));
        for chunk in listed.chain(malloc.arenas.iter().filter_map(|arena| arena.top)) {
            let size = size_at(chunk).map(|head| shape.size_of(head)).filter(|size| shape.is_size(*size));
            out.extend(size.map(|size| AddrRange::sized(chunk, size)));
        }
    }
    let slots = malloc.musl.walk_many(process, Vec::new, |out: &mut Vec<AddrRange>, slot| {
        if slot.state == SlotState::Free && slot.range.len() >= PAGE {
            out.push(slot.range);
        }
    });
    out.extend(slots.into_iter().flatten());
    out.retain(|range| range.len() >= PAGE);
    out.sort_unstable();
    // In a damaged heap, chunks may overlap.
    out.dedup_by(|next, kept| next.start < kept.end);
    out
}

/// Subtracts bytes that other labels won, from the used bytes first.
fn shrink(split: UsageSplit, over: u64) -> UsageSplit {
    let used = split.used.saturating_sub(over);
    let left = over - (split.used - used);
    let free = split.free.saturating_sub(left);
    let left = left - (split.free - free);
    let overhead = split.overhead.saturating_sub(left);
    let left = left - (split.overhead - overhead);
    let released = split.released.min(free);
    UsageSplit { used, free, released, overhead, unknown: split.unknown.saturating_sub(left) }
}

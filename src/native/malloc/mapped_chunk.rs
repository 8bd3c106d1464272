//! One chunk with a mapping of its own: its header stands at the start of the
//! mapping, or behind the padding that an alignment asked for.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::malloc::shape::Shape;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedChunk {
    /// Its whole mapping.
    pub range: AddrRange,
    /// Where its header is: at the start, or `prev_size` bytes above it.
    pub chunk: Addr,
    /// Size of the chunk in bytes, as its header has it.
    pub size: u64,
    /// Exact where as many were found, with as many bytes, as malloc counts.
    pub confidence: Confidence,
}

impl MappedChunk {
    /// How it is known, in words.
    pub fn evidence(&self) -> String {
        let counted = match self.confidence {
            Confidence::Exact => "as many were found as mp_.n_mmaps and mmapped_mem count",
            _ => "their number and bytes are not those that mp_ counts, or mp_ was not found",
        };
        format!("mchunk_size {:#x} with IS_MMAPPED at {}; {counted}", self.size, self.chunk)
    }
}

/// Where the chunks end that begin at `start` and follow each other, `end` at most.
pub(super) fn after(memory: &dyn Memory, shape: &Shape, start: Addr, end: Addr) -> Addr {
    let mut at = start;
    for _ in 0..limits::MAX_MAPPED_CHUNKS {
        let Some(c) = chunk_at(memory, shape, at, end) else { break };
        at = c.range.end;
    }
    at
}

/// The chunk whose mapping begins at `start` and ends at `end` at the latest, by the header at the start.
pub(super) fn chunk_at(memory: &dyn Memory, shape: &Shape, start: Addr, end: Addr) -> Option<MappedChunk> {
    header(memory, shape, start, start, end)
}

/// The same mapping with its chunk where an alignment put it: the header at the start stays then, and another one stands behind
/// it. One page or two for each power of two have to be looked at.
pub(super) fn aligned(memory: &dyn Memory, shape: &Shape, first: MappedChunk) -> MappedChunk {
    let c = &shape.chunk;
    let start = first.range.start;
    let mem = start.saturating_add(c.mem);
    let mut align = 2 * c.alignment;
    let mut before = [start; 2];
    while align < first.range.len() {
        let aligned = mem.align_up(align).saturating_sub(c.mem);
        let places = [aligned, aligned.saturating_add(align)];
        // Most are the second of the alignment before.
        for at in places.into_iter().filter(|at| !before.contains(at)) {
            if let Some(second) = header(memory, shape, start, at, first.range.end).filter(|s| s.range == first.range) {
                return second;
            }
        }
        before = places;
        align = align.saturating_mul(2);
    }
    first
}

/// The header at `at`, if it says that its mapping begins at `start` and is whole
/// pages up to `end` at most.
fn header(memory: &dyn Memory, shape: &Shape, start: Addr, at: Addr, end: Addr) -> Option<MappedChunk> {
    let c = &shape.chunk;
    let prev = memory.u64(at.checked_add(c.prev_size)?).ok()?;
    if prev & !c.mmap_hp != at.since(start) {
        return None;
    }
    let head = memory.u64(at.checked_add(c.size)?).ok()?;
    let size = shape.size_of(head);
    if head & c.flag_bits != c.is_mmapped || !shape.is_size(size) {
        return None;
    }
    // Up to 2.42 the size goes to the mapping's end, later not quite.
    let whole = [0, c.mmapped_tail].into_iter().find_map(|tail| {
        let to = at.checked_add(size)?.checked_add(tail)?;
        (to.is_aligned(4096) && to <= end).then_some(to)
    })?;
    Some(MappedChunk { range: AddrRange::new(start, whole), chunk: at, size, confidence: Confidence::Derived })
}

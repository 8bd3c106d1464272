//! A chunk with its own mapping, by its header.
//!
//! The header is at the start of the mapping, or after the padding of an aligned allocation.

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::malloc::shape::Shape;
use crate::process::Process;

/// Number of chunks per parallel task.
const AT_ONCE: usize = 128;

/// A chunk with its own mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedChunk {
    /// The whole mapping.
    pub range: AddrRange,
    /// Address of the chunk's header: the start of the mapping, or `prev_size` bytes after it.
    pub chunk: Addr,
    /// Size of the chunk in bytes, from its header.
    pub size: u64,
    /// Exact if the number and bytes of all such chunks equal malloc's counts.
    pub confidence: Confidence,
}

impl MappedChunk {
    /// Describes how the chunk was found.
    pub fn evidence(&self) -> String {
        let counted = match self.confidence {
            Confidence::Exact => "their number and bytes match mp_.n_mmaps and mmapped_mem",
            _ => "their number and bytes don't match mp_, or mp_ was not found",
        };
        format!("mchunk_size {:#x} with IS_MMAPPED at {}; {counted}", self.size, self.chunk)
    }
}

/// Returns the end of a run of mapped chunks that begins at `start`, at most `end`.
pub(super) fn after(memory: &dyn Memory, shape: &Shape, start: Addr, end: Addr) -> Addr {
    let mut at = start;
    for _ in 0..limits::MAX_MAPPED_CHUNKS {
        let Some(c) = chunk_at(memory, shape, at, end) else { break };
        at = c.range.end;
    }
    at
}

/// Returns the chunk whose mapping begins at `start` and ends at `end` or before, by the header at `start`.
pub(super) fn chunk_at(memory: &dyn Memory, shape: &Shape, start: Addr, end: Addr) -> Option<MappedChunk> {
    header(memory, shape, start, start, end)
}

/// Moves each chunk to its second header, if an aligned allocation made one. The header at the start of the mapping
/// stays valid then.
///
/// The first word at each possible position is read, for many chunks at once.
pub(super) fn align(process: &Process, memory: &dyn Memory, shape: &Shape, chunks: &mut [MappedChunk]) {
    let word = |at: Addr| at.saturating_add(shape.chunk.prev_size);
    chunks.par_chunks_mut(AT_ONCE).for_each(|chunks| {
        let asked: Vec<(usize, Addr)> =
            chunks.iter().enumerate().flat_map(|(i, c)| places(shape, *c).into_iter().map(move |at| (i, at))).collect();
        let addrs: Vec<Addr> = asked.iter().map(|&(_, at)| word(at)).collect();
        for (&(i, at), prev) in asked.iter().zip(process.target().peek_words(&addrs)) {
            let Some(c) = chunks.get_mut(i) else { continue };
            let start = c.range.start;
            if c.chunk == start
                && prev.is_some_and(|prev| prev & !shape.chunk.mmap_hp == at.since(start))
                && let Some(second) = header(memory, shape, start, at, c.range.end).filter(|s| s.range == c.range)
            {
                *c = MappedChunk { confidence: c.confidence, ..second };
            }
        }
    });
}

/// Returns where the header of `first` may be after an aligned allocation (`_int_memalign` of glibc).
///
/// malloc returns the first multiple of the alignment, or the next one if no chunk fits before that. Seen in 2.43: it
/// need not fit.
fn places(shape: &Shape, first: MappedChunk) -> Vec<Addr> {
    let c = &shape.chunk;
    let start = first.range.start;
    let mem = start.saturating_add(c.mem);
    let mut out = Vec::new();
    let mut align = 2 * c.alignment;
    while align < first.range.len() {
        let at = mem.align_up(align).saturating_sub(c.mem);
        if at != start && out.last() != Some(&at) {
            out.push(at);
        }
        if (1..c.min_size).contains(&at.since(start)) {
            out.push(at.saturating_add(align));
        }
        align = align.saturating_mul(2);
    }
    out
}

/// Returns the chunk with the header at `at`. Its mapping must begin at `start` and end at a page border, at most at
/// `end`.
fn header(memory: &dyn Memory, shape: &Shape, start: Addr, at: Addr, end: Addr) -> Option<MappedChunk> {
    let c = &shape.chunk;
    let prev = memory.peek_u64(at.checked_add(c.prev_size)?).ok()?;
    if prev & !c.mmap_hp != at.since(start) {
        return None;
    }
    let head = memory.peek_u64(at.checked_add(c.size)?).ok()?;
    let size = shape.size_of(head);
    if head & c.flag_bits != c.is_mmapped || !shape.is_size(size) {
        return None;
    }
    // Up to 2.42 the chunk ends with its mapping. In later versions it ends shortly before.
    let whole = [0, c.mmapped_tail].into_iter().find_map(|tail| {
        let to = at.checked_add(size)?.checked_add(tail)?;
        (to.is_aligned(4096) && to <= end).then_some(to)
    })?;
    Some(MappedChunk { range: AddrRange::new(start, whole), chunk: at, size, confidence: Confidence::Derived })
}

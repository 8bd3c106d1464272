//! Which objects of a span are allocated.
//!
//! Source: runtime/mheap.go (`mspan`), mgcsweep.go, mgcmark_greenteagc.go. Objects before `freeindex` are allocated.
//! Each later object is allocated if its bit in `allocBits` is set. In a span that the sweeper has not visited since
//! the last collection, an object without a mark is dead. While the collector marks, no such span exists: sweeping ends
//! before a collection begins.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::go::heap::spans::{PAGE, Span};
use crate::runtimes::go::runtime::Runtime;

/// Size of an arena in bytes, and the offset that is added to an address before it is divided by this size (x86_64).
const ARENA: u64 = 64 << 20;
const ARENA_BASE: u64 = 0x8000_0000_0000;

/// Bytes for marks at the end of a span (Go 1.26 and later), and the offset of the mark bits in them.
/// `spanInlineMarkBits` has 63 bytes for scans, 1 for owners, 63 for marks and 1 for the class.
pub(in crate::runtimes::go) const INLINE_MARKS: u64 = 128;
const MARKS_AT: u64 = 64;

/// Sizes of objects whose spans have marks at their end.
const INLINE_SIZES: std::ops::RangeInclusive<u64> = 16..=512;

/// Bits of a span's objects, 64 a word.
pub(in crate::runtimes::go) struct Bits(Vec<u64>);

impl Bits {
    /// Number of bits that are set.
    pub(in crate::runtimes::go) fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, word| sum.saturating_add(u64::from(word.count_ones())))
    }

    /// Whether a bit is set.
    pub(in crate::runtimes::go) fn has(&self, index: u64) -> bool {
        let word = usize::try_from(index / 64).ok().and_then(|at| self.0.get(at));
        word.is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    /// Reads `count` bits at `at`. All are clear if they are not in the core.
    fn read(memory: &dyn Memory, at: Addr, count: u64) -> Option<Bits> {
        let bytes = usize::try_from(count.div_ceil(8)).ok()?;
        let mut bytes = memory.bytes(at, bytes).ok()?;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if let Some(last) = words.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last &= (1 << (count % 64)) - 1;
        }
        Some(Bits(words))
    }

    fn set_first(&mut self, count: u64) {
        for (i, word) in (0u64..).zip(&mut self.0) {
            match count.saturating_sub(i * 64) {
                0 => return,
                left if left >= 64 => *word = u64::MAX,
                left => *word |= (1 << left) - 1,
            }
        }
    }
}

/// Allocated objects of the spans of one runtime.
pub(in crate::runtimes::go) struct Liveness<'r, 'p> {
    runtime: &'r Runtime<'p>,
    /// Value of `mspan.sweepgen` in spans that wait for the sweeper.
    unswept: Option<u32>,
    /// The table of arenas. `None` if it can't be read.
    arenas: Option<Addr>,
}

impl<'r, 'p> Liveness<'r, 'p> {
    pub(in crate::runtimes::go) fn new(runtime: &'r Runtime<'p>) -> Liveness<'r, 'p> {
        let (memory, shape) = (runtime.memory(), &runtime.shape().heap);
        let heap = runtime.proof.globals.heap;
        let sweepgen = heap.checked_add(shape.sweepgen).and_then(|at| memory.u32(at).ok());
        let arenas = heap.checked_add(shape.arenas).and_then(|at| memory.ptr(at).ok()).filter(|at| !at.is_null());
        Liveness { runtime, unswept: sweepgen.map(|now| now.wrapping_sub(2)), arenas }
    }

    /// Returns which objects of a span are live: allocated, and not found dead by the last collection. `None` if that
    /// is not in the core.
    pub(in crate::runtimes::go) fn of(&self, span: &Span) -> Option<Bits> {
        let memory = self.runtime.memory();
        let mut out = Bits::read(memory, span.alloc_bits, span.count)?;
        out.set_first(span.free_index.min(span.count));
        if self.unswept == Some(span.sweepgen) {
            let marks = Bits::read(memory, span.mark_bits, span.count)?;
            let inline = self.inline_marks(span).and_then(|at| Bits::read(memory, at, span.count));
            for (i, word) in out.0.iter_mut().enumerate() {
                let of = |bits: &Bits| bits.0.get(i).copied().unwrap_or(0);
                *word &= of(&marks) | inline.as_ref().map_or(0, of);
            }
        }
        Some(out)
    }

    /// Address of the marks at the end of a span. `None` if it has none there.
    pub(in crate::runtimes::go) fn inline_marks(&self, span: &Span) -> Option<Addr> {
        let offset = self.runtime.shape().arena.inline_marks?;
        if span.range.len() != PAGE || !INLINE_SIZES.contains(&span.elem) {
            return None;
        }
        let arena = self.arena(span.range.start)?;
        let page = span.range.start.since(span.range.start.align_down(ARENA)) / PAGE;
        let mut byte = [0];
        let at = arena.checked_add(offset)?.checked_add(page / 8)?;
        self.runtime.memory().read(at, &mut byte).ok()?;
        let uses = byte[0] >> (page % 8) & 1 != 0;
        uses.then(|| span.range.end.checked_sub(INLINE_MARKS - MARKS_AT)).flatten()
    }

    /// The `heapArena` of an address.
    pub(in crate::runtimes::go) fn arena(&self, addr: Addr) -> Option<Addr> {
        let index = addr.wrapping_add(ARENA_BASE).align_down(ARENA).since(Addr::NULL) / ARENA;
        let at = self.arenas?.checked_add(index.checked_mul(8)?)?;
        self.runtime.memory().ptr(at).ok().filter(|arena| !arena.is_null())
    }
}

/// The arena that contains an address.
pub(in crate::runtimes::go) fn arena_of(addr: Addr) -> crate::addr::AddrRange {
    crate::addr::AddrRange::sized(addr.align_down(ARENA), ARENA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_objects_are_allocated_whatever_the_bits_say() {
        let mut bits = Bits(vec![0, 0b100, 0]);
        bits.set_first(65);
        assert_eq!(bits.count(), 66);
        assert!(bits.has(64) && !bits.has(65) && bits.has(66) && !bits.has(1000));
    }
}

//! The heap's dumped memory as one sequence of numbered words.
//!
//! Finds the run that contains an address in two steps, however many regions there are.

use crate::addr::{Addr, AddrRange};
use crate::phase::Phase;
use crate::sums::SaturatingSum;
use crate::targets::Target;

/// A contiguous range of dumped heap memory.
#[derive(Clone, Copy)]
pub(crate) struct MemoryRun<'a> {
    /// Address of the first word.
    start: u64,
    /// End address.
    end: u64,
    /// Number of the first word in the whole sequence.
    first: u64,
    words: &'a [[u8; 8]],
}

/// All runs of a heap, with an index by address.
pub struct Space<'a> {
    runs: Vec<MemoryRun<'a>>,
    /// Per GiB of the address space: number of its row in `pages`, plus 1. 0 if there is none.
    top: Vec<u32>,
    /// One row per used GiB, one entry per MiB: number of the first run that ends in it or later, plus 1.
    pages: Vec<u32>,
    /// Number of words in the sequence, padding between runs included.
    words: u64,
    /// Words of the smallest object, at most [`MAX_SLOT_WORDS`]. At most one object begins in any sequence of that many
    /// words.
    object_words: u64,
}

/// Maximum number of words per slot. The graph stores a position in a slot in two bits, and one of the four values
/// means that no object begins there.
const MAX_SLOT_WORDS: u64 = 3;

const GIB: u32 = 30;
const MIB: u32 = 20;

/// Entries in a row of `pages`: the MiB in a GiB.
const ROW: usize = 1 << (GIB - MIB);

/// Bits of the addresses that the table covers. Programs on x86_64 and aarch64 get addresses of up to 48 bits, unless
/// they ask for more (five-level page tables). Runs above are found by binary search.
const ADDRESS_BITS: u32 = 48;

impl<'a> Space<'a> {
    /// Creates the space of the dumped memory in `ranges`, which must be disjoint and sorted. `min_object`: size of the
    /// smallest object in bytes.
    pub fn new(target: &'a dyn Target, ranges: impl Iterator<Item = AddrRange>, min_object: u64) -> Space<'a> {
        let _phase = target.reads().enter_if_none(Phase::References);
        let mut space = Space::empty(min_object);
        let ranges: Vec<AddrRange> = ranges.collect();
        target.expect_random(ranges.iter().map(|range| target.facts().space.dumped_in(*range)).saturating_sum());
        for range in ranges {
            for run in target.dumped_runs(range) {
                target.reads().note_run(run.range.start, run.range.len());
                let start = run.range.start.align_up(8);
                let bytes = run.bytes.get(start.since(run.range.start) as usize..).unwrap_or_default();
                space.add(start, bytes);
            }
        }
        space
    }

    fn empty(min_object: u64) -> Space<'a> {
        let object_words = (min_object / 8).clamp(1, MAX_SLOT_WORDS);
        let top = vec![0; 1 << (ADDRESS_BITS - GIB)];
        Space { runs: Vec::new(), top, pages: Vec::new(), words: 0, object_words }
    }

    fn add(&mut self, start: Addr, bytes: &'a [u8]) {
        let words = bytes.as_chunks::<8>().0;
        let end = start.checked_add(8 * words.len() as u64).map_or(0, |e| e.get());
        if words.is_empty() || end <= start.get() {
            return;
        }
        // Align the number, so that no slot covers words of two runs.
        let first = self.words.next_multiple_of(self.object_words);
        self.runs.push(MemoryRun { start: start.get(), end, first, words });
        self.words = first + words.len() as u64;
        let number = self.runs.len() as u32;
        let last = (end - 1).min((1 << ADDRESS_BITS) - 1);
        for page in start.get() >> MIB..=last >> MIB {
            let Some(row) = self.top.get_mut((page >> (GIB - MIB)) as usize) else { continue };
            if *row == 0 {
                *row = (self.pages.len() / ROW + 1) as u32;
                self.pages.resize(self.pages.len() + ROW, 0);
            }
            let at = (*row as usize - 1) * ROW + (page as usize & (ROW - 1));
            if let Some(slot) = self.pages.get_mut(at)
                && *slot == 0
            {
                *slot = number;
            }
        }
    }

    /// Number of words in all runs, and of the few numbers skipped between runs.
    pub(crate) fn words(&self) -> u64 {
        self.words
    }

    /// The run that contains the word with this number.
    pub(crate) fn run_of(&self, index: u64) -> Option<&MemoryRun<'a>> {
        let i = self.runs.partition_point(|r| r.first <= index).checked_sub(1)?;
        self.runs.get(i).filter(|run| run.address(index).is_some())
    }

    /// Number of the first word at or after `addr`. `None` if there is none.
    pub(crate) fn index_from(&self, addr: u64) -> Option<u64> {
        let run = self.runs.get(self.runs.partition_point(|r| r.end <= addr))?;
        Some(run.first + (addr.saturating_sub(run.start)).div_ceil(8))
    }

    /// The run that contains `addr`.
    #[inline(always)]
    pub(crate) fn run(&self, addr: u64) -> Option<&MemoryRun<'a>> {
        let Some(&row) = self.top.get((addr >> GIB) as usize) else { return self.high_run(addr) };
        let at = (row as usize).checked_sub(1)? * ROW + ((addr >> MIB) as usize & (ROW - 1));
        let mut i = (*self.pages.get(at)? as usize).checked_sub(1)?;
        loop {
            let run = self.runs.get(i)?;
            if addr < run.start {
                return None;
            }
            if addr < run.end {
                return Some(run);
            }
            i += 1;
        }
    }

    /// Like [`Space::run`], but tries `near` first and updates it. Consecutive lookups are usually close to each other.
    #[inline(always)]
    pub(crate) fn run_near<'s>(&'s self, addr: u64, near: &mut Option<&'s MemoryRun<'a>>) -> Option<&'s MemoryRun<'a>> {
        if let Some(run) = near.filter(|run| run.has(addr)) {
            return Some(run);
        }
        let found = self.run(addr);
        if found.is_some() {
            *near = found;
        }
        found
    }

    /// `len` bytes from `addr`. `None` if they are not all in one run.
    #[inline(always)]
    pub fn bytes(&self, addr: u64, len: usize) -> Option<&'a [u8]> {
        let run = self.run(addr)?;
        let from = usize::try_from(addr.wrapping_sub(run.start)).ok()?;
        run.words.as_flattened().get(from..from.checked_add(len)?)
    }

    /// The little-endian 32-bit value at `addr`.
    #[inline(always)]
    pub fn u32(&self, addr: u64) -> Option<u32> {
        self.bytes(addr, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The run that contains an address above the table's range.
    #[cold]
    fn high_run(&self, addr: u64) -> Option<&MemoryRun<'a>> {
        let i = self.runs.partition_point(|r| r.end <= addr);
        self.runs.get(i).filter(|r| r.start <= addr)
    }
}

impl<'a> MemoryRun<'a> {
    #[inline(always)]
    fn has(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.start) < self.end.wrapping_sub(self.start)
    }

    /// Number of the word at `addr`, which must be in this run.
    #[inline(always)]
    pub(crate) fn index(&self, addr: u64) -> u64 {
        self.first + (addr.wrapping_sub(self.start) >> 3)
    }

    /// Address of the word with this number. `None` if it is in another run.
    #[inline(always)]
    pub(crate) fn address(&self, index: u64) -> Option<u64> {
        let at = self.start.checked_add(index.checked_sub(self.first)?.checked_mul(8)?)?;
        (at < self.end).then_some(at)
    }

    /// The words from `addr` to the end of the run.
    #[inline(always)]
    pub(crate) fn words(&self, addr: u64) -> &'a [[u8; 8]] {
        self.words.get((addr.wrapping_sub(self.start) >> 3) as usize..).unwrap_or_default()
    }
}

/// A space of these runs, each a start address and bytes.
#[cfg(test)]
pub(crate) fn of_runs<'a>(runs: &[(u64, &'a [u8])]) -> Space<'a> {
    let mut space = Space::empty(24);
    for &(start, bytes) in runs {
        space.add(Addr::new(start), bytes);
    }
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_by_address() {
        let mut space = Space::empty(24);
        let (a, b, c) = (vec![1_u8; 64], vec![2_u8; 3 << 20], vec![3_u8; 16]);
        space.add(Addr::new(0x7000_0000_0000), &a);
        space.add(Addr::new(0x7000_0000_1000), &b);
        space.add(Addr::new(0x7fff_0000_0000), &c);
        // The second run begins at the next multiple of three, as would the third.
        assert_eq!(space.words(), 9 + (3 << 17) + 2);
        let index = |addr| space.run(addr).map(|r| r.index(addr));
        assert_eq!(index(0x7000_0000_0000), Some(0));
        assert_eq!(index(0x7000_0000_0038), Some(7));
        assert_eq!(index(0x7000_0000_0040), None);
        assert_eq!(index(0x7000_0000_1000), Some(9));
        assert_eq!(index(0x7000_0020_0000), Some(9 + ((0x20_0000 - 0x1000) >> 3)));
        assert_eq!(index(0x7000_0030_1000), None);
        assert_eq!(index(0x7fff_0000_0008), Some(9 + (3 << 17) + 1));
        assert_eq!(index(0xffff_ffff_ffff_fff8), None);
        assert_eq!(index(0), None);
        for addr in [0x7000_0000_0000, 0x7000_0000_0038, 0x7000_0000_1000, 0x7000_0030_0ff8, 0x7fff_0000_0008] {
            assert_eq!(index(addr).and_then(|i| space.run_of(i)?.address(i)), Some(addr));
        }
        assert_eq!(space.bytes(0x7000_0000_003e, 2), Some([1_u8; 2].as_slice()));
        assert_eq!((space.bytes(0x7000_0000_003f, 2), space.bytes(0x7000_0000_0fff, 2)), (None, None));
        assert_eq!((space.u32(0x7fff_0000_000c), space.u32(0x7fff_0000_000d)), (Some(0x303_0303), None));
        assert!(space.run_of(8).is_none() && space.run_of(9 + (3 << 17) + 2).is_none());
    }

    #[test]
    fn runs_at_the_top_of_the_address_space() {
        let mut space = Space::empty(24);
        let bytes = [0; 24];
        for start in [(1 << 48) - 8, 1 << 60, u64::MAX - 23] {
            space.add(Addr::new(start), &bytes);
        }
        // The last one is not added: its end exceeds the address space.
        assert_eq!(space.words(), 6);
        let index = |addr| space.run(addr).map(|r| r.index(addr));
        assert_eq!([(1 << 48) - 8, 1 << 48, (1 << 48) + 16].map(index), [Some(0), Some(1), None]);
        assert_eq!([(1 << 60) - 8, 1 << 60, (1 << 60) + 16, u64::MAX].map(index), [None, Some(3), Some(5), None]);
    }
}

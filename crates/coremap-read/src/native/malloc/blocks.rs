//! Finds the block that contains an address.
//!
//! There are two bits for each 16 bytes of heap: whether a chunk starts there, and whether it is in use. The two are
//! side by side, so that a lookup waits for memory once. At intervals the nearest starts on both sides are stored
//! ("checkpoints"), so that a lookup inside a large chunk does not search all of its bits.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::native::malloc::range_index::RangeIndex;
use crate::native::malloc::{Chunk, FreeLists, Malloc, Slot, SlotState, State};
use crate::process::Process;

/// Alignment of chunks in bytes (MALLOC_ALIGNMENT on 64 bits).
const ALIGN: u64 = 16;

/// Number of bit words between two checkpoints (16 KiB of heap).
const CHECKPOINT_WORDS: usize = 16;

/// Number of bit words per parallel task (1 MiB of heap).
const TASK: usize = 1024;

/// Marks a missing start.
const NONE: u64 = u64::MAX;

/// Number of a block: the index of its start bit, counted over all parts. Order follows addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u64);

/// A block of malloc, in use or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block.
    pub id: BlockId,
    /// Usable bytes, from the address that malloc returned.
    pub range: AddrRange,
    /// Size in bytes of the chunk or slot, with its header.
    pub size: u64,
    /// Whether the block is in use.
    pub used: bool,
}

/// All blocks of a process.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Ordered by address.
    parts: Vec<BlockBitmap>,
    index: RangeIndex,
    /// Number of bit words in all parts.
    words: usize,
    /// Whether a contiguous range of the heap is too large, so that blocks past the limit are missing.
    pub capped: bool,
}

/// Start and use bits of 64 possible chunk addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    starts: u64,
    used: u64,
}

/// The unused ends of a slot: units of 16 bytes before the block, and bytes after it.
#[derive(Clone, Copy, Debug, Default)]
struct SlotPadding {
    before: u32,
    after: u32,
}

/// The blocks of one range of an arena, of one group of slots, or one chunk with its own mapping.
#[derive(Debug, Default)]
struct BlockBitmap {
    first: u64,
    end: u64,
    /// End of the addresses of this part: its own end, or the start of the next part.
    until: u64,
    mem: u64,
    tail: u64,
    /// Number of bit words in all preceding parts.
    base: usize,
    words: Vec<Word>,
    /// Last start before each checkpoint (every [`CHECKPOINT_WORDS`] words).
    before: Vec<u64>,
    /// First start after the words of each checkpoint.
    after: Vec<u64>,
    /// For slots: the unused ends of each used slot. `ranks` has the number of used slots before each checkpoint.
    padding: Vec<SlotPadding>,
    ranks: Vec<u32>,
    /// Whether a chunk is too far from the first one.
    capped: bool,
    /// Used chunks that may be caches of ended threads.
    caches: Vec<Addr>,
}

/// Index of the highest set bit. `word` must not be 0.
fn highest(word: u64) -> u64 {
    63 - u64::from(word.leading_zeros())
}

/// Index of the lowest set bit. `word` must not be 0.
fn lowest(word: u64) -> u64 {
    u64::from(word.trailing_zeros())
}

impl BlockBitmap {
    fn set(&mut self, chunk: u64, size: u64, used: bool) {
        if self.words.is_empty() {
            (self.first, self.end) = (chunk, chunk);
        }
        // Bytes between the previous chunk and this one belong to no chunk. They become an unused block.
        if self.end != chunk {
            self.begin(self.end, false);
        }
        self.begin(chunk, used);
        self.end = chunk.saturating_add(size);
    }

    fn begin(&mut self, at: u64, used: bool) {
        let bit = at.saturating_sub(self.first) / ALIGN;
        let word = (bit / 64) as usize;
        if word >= self.words.len() {
            if bit >= limits::MAX_HEAP_PART / ALIGN {
                self.capped = true;
                return;
            }
            self.words.resize(word + 1, Word::default());
        }
        if let Some(word) = self.words.get_mut(word) {
            word.starts |= 1 << (bit % 64);
            word.used |= u64::from(used) << (bit % 64);
        }
    }

    /// Adds a slot, with its unused ends.
    fn set_slot(&mut self, slot: &Slot) {
        let used = slot.state == SlotState::Used;
        self.set(slot.range.start.get(), slot.range.len(), used);
        if used && !self.capped {
            let before = slot.block.start.since(slot.range.start) / ALIGN;
            let after = slot.range.end.since(slot.block.end);
            let fits = |n: u64| u32::try_from(n).unwrap_or(0);
            self.padding.push(SlotPadding { before: fits(before), after: fits(after) });
        }
    }

    /// Returns the unused ends of the used slot that starts at bit `start`.
    fn padding(&self, start: u64) -> SlotPadding {
        let word = (start / 64) as usize;
        let checkpoint = word / CHECKPOINT_WORDS;
        let before = self.words.get(checkpoint * CHECKPOINT_WORDS..word).unwrap_or_default();
        let before: u32 = before.iter().map(|w| w.used.count_ones()).sum();
        let own = self.words.get(word).map_or(0, |w| (w.used & !(u64::MAX << (start % 64))).count_ones());
        let rank = self.ranks.get(checkpoint).copied().unwrap_or(0).saturating_add(before).saturating_add(own);
        self.padding.get(rank as usize).copied().unwrap_or_default()
    }

    fn finish(&mut self) {
        if !self.padding.is_empty() {
            let mut used = 0_u32;
            for words in self.words.chunks(CHECKPOINT_WORDS) {
                self.ranks.push(used);
                used = words.iter().fold(used, |sum, w| sum.saturating_add(w.used.count_ones()));
            }
        }
        let mut last = NONE;
        for (k, words) in self.words.chunks(CHECKPOINT_WORDS).enumerate() {
            self.before.push(last);
            if let Some((i, word)) = words.iter().enumerate().rfind(|(_, w)| w.starts != 0) {
                last = (k * CHECKPOINT_WORDS + i) as u64 * 64 + highest(word.starts);
            }
        }
        let mut next = NONE;
        self.after = vec![NONE; self.before.len()];
        for (k, words) in self.words.chunks(CHECKPOINT_WORDS).enumerate().rev() {
            if let Some(after) = self.after.get_mut(k) {
                *after = next;
            }
            if let Some((i, word)) = words.iter().enumerate().find(|(_, w)| w.starts != 0) {
                next = (k * CHECKPOINT_WORDS + i) as u64 * 64 + lowest(word.starts);
            }
        }
    }

    /// Returns the last start at or before `bit`.
    #[inline]
    fn start_at(&self, bit: u64) -> Option<u64> {
        let word = (bit / 64) as usize;
        let here = self.words.get(word)?.starts & (u64::MAX >> (63 - bit % 64));
        if here != 0 {
            return Some(bit / 64 * 64 + highest(here));
        }
        self.start_before(word)
    }

    fn start_before(&self, word: usize) -> Option<u64> {
        let checkpoint = word / CHECKPOINT_WORDS;
        let before = self.words.get(checkpoint * CHECKPOINT_WORDS..word)?;
        match before.iter().enumerate().rfind(|(_, w)| w.starts != 0) {
            Some((i, word)) => Some((checkpoint * CHECKPOINT_WORDS + i) as u64 * 64 + highest(word.starts)),
            None => self.before.get(checkpoint).copied().filter(|b| *b != NONE),
        }
    }

    /// Returns the first start after `bit`, or the end if there is none.
    #[inline]
    fn next_start(&self, bit: u64) -> u64 {
        let word = (bit / 64) as usize;
        let here = self.words.get(word).map_or(0, |w| w.starts & !(u64::MAX >> (63 - bit % 64)));
        if here != 0 {
            return bit / 64 * 64 + lowest(here);
        }
        self.start_after(word)
    }

    fn start_after(&self, word: usize) -> u64 {
        let checkpoint = word / CHECKPOINT_WORDS;
        let end = ((checkpoint + 1) * CHECKPOINT_WORDS).min(self.words.len());
        let after = self.words.get(word + 1..end).unwrap_or_default();
        match after.iter().enumerate().find(|(_, w)| w.starts != 0) {
            Some((i, w)) => (word + 1 + i) as u64 * 64 + lowest(w.starts),
            None => match self.after.get(checkpoint) {
                Some(&next) if next != NONE => next,
                _ => self.end.saturating_sub(self.first) / ALIGN,
            },
        }
    }

    /// Returns the start bit of the block that contains `addr`.
    #[inline]
    fn start_of(&self, addr: u64) -> Option<u64> {
        let from = addr.checked_sub(self.first)?;
        if from < self.mem || addr >= self.end.saturating_add(self.tail) {
            return None;
        }
        // A chunk with its own mapping has one start bit and no bits after it.
        let bit = (from.saturating_sub(self.tail) / ALIGN).min((self.words.len() as u64 * 64).checked_sub(1)?);
        // At most one block starts between `bit` and the address: a block whose header contains the address.
        self.start_at(bit).filter(|start| from >= start * ALIGN + self.mem)
    }

    fn is_used(&self, start: u64) -> bool {
        self.words.get((start / 64) as usize).is_some_and(|w| w.used >> (start % 64) & 1 != 0)
    }

    fn id(&self, start: u64) -> BlockId {
        BlockId(self.base as u64 * 64 + start)
    }

    fn block(&self, start: u64) -> Block {
        let size = self.next_start(start).saturating_sub(start) * ALIGN;
        let at = self.first.saturating_add(start * ALIGN);
        let used = self.is_used(start);
        let padding = if used && !self.padding.is_empty() { self.padding(start) } else { SlotPadding::default() };
        let from = at.saturating_add(self.mem + u64::from(padding.before) * ALIGN);
        let to = at.saturating_add((size + self.tail).saturating_sub(padding.after.into()));
        Block { id: self.id(start), range: AddrRange::new(Addr::new(from), Addr::new(to.max(from))), size, used }
    }
}

impl Blocks {
    /// Reads the blocks of all arenas, of musl and other allocators, and those with their own mappings.
    pub fn read(process: &Process, malloc: &Malloc, lists: &FreeLists) -> Blocks {
        let mem = malloc.block(Addr::NULL).get();
        // A chunk may use the first word of the next one. A chunk at the end of a mapping has no next one.
        let tail = malloc.usable(1 << 20) + mem - (1 << 20);
        let set = |bits: &mut BlockBitmap, c: &Chunk| {
            let used = c.state == State::Used;
            bits.set(c.address.get(), c.size, used);
            // Store one more than the limit, so that the excess can be reported.
            if used && malloc.is_cache_size(c.size) && bits.caches.len() <= limits::MAX_TCACHES {
                bits.caches.push(c.address);
            }
        };
        let walked = malloc.walk(process, lists, |_| BlockBitmap { mem, tail, ..BlockBitmap::default() }, set);
        let mut parts: Vec<BlockBitmap> = walked.into_iter().map(|(_, _, bits, _)| bits).collect();
        for chunk in &malloc.mapped {
            let tail = (mem + malloc.usable_of_mapped(chunk)).saturating_sub(chunk.size);
            let mut bits = BlockBitmap { mem, tail, ..BlockBitmap::default() };
            // One start bit is enough. All others would be 0.
            bits.set(chunk.chunk.get(), chunk.size, lists.state_of(chunk.chunk).is_none());
            parts.push(bits);
        }
        parts.extend(malloc.musl.walk(process, BlockBitmap::default, BlockBitmap::set_slot));
        for heap in malloc.others(process) {
            parts.extend(heap.walk(1, BlockBitmap::default, |bits, slot| {
                // Two blocks of 8 bytes would share one bit.
                if slot.range.len().is_multiple_of(ALIGN) {
                    bits.set_slot(slot);
                }
            }));
        }
        Blocks::of(parts)
    }

    fn of(mut parts: Vec<BlockBitmap>) -> Blocks {
        parts.retain(|p| !p.words.is_empty());
        parts.sort_by_key(|p| p.first);
        let mut words = 0;
        for part in &mut parts {
            part.finish();
            part.base = words;
            words += part.words.len();
        }
        let mut next = u64::MAX;
        for part in parts.iter_mut().rev() {
            part.until = part.end.saturating_add(part.tail).min(next);
            next = part.first;
        }
        let capped = parts.iter().any(|p| p.capped);
        let index = RangeIndex::new(parts.iter().map(|p| (p.first, p.end.saturating_add(p.tail))));
        Blocks { parts, index, words, capped }
    }

    /// Returns used chunks that may be caches of ended threads, and whether there are more than the limit.
    pub fn caches(&self) -> (Vec<Addr>, bool) {
        let all = || self.parts.iter().flat_map(|p| p.caches.iter().copied());
        (all().take(limits::MAX_TCACHES).collect(), all().nth(limits::MAX_TCACHES).is_some())
    }

    /// Returns the range from the first block to the end of the last.
    pub fn hull(&self) -> AddrRange {
        let last = self.parts.iter().map(|p| p.end.saturating_add(p.tail)).max();
        AddrRange::new(Addr::new(self.parts.first().map_or(0, |p| p.first)), Addr::new(last.unwrap_or(0)))
    }

    /// Returns the address range of each part, by address.
    pub fn parts(&self) -> impl Iterator<Item = AddrRange> {
        self.parts.iter().map(|p| AddrRange::new(Addr::new(p.first), Addr::new(p.end.saturating_add(p.tail))))
    }

    #[inline]
    fn part(&self, addr: Addr) -> Option<&BlockBitmap> {
        self.parts.get(self.index.find(addr.get())?)
    }

    /// Returns the number of the part that contains `addr`.
    pub(crate) fn part_of(&self, addr: Addr) -> Option<usize> {
        self.index.find(addr.get())
    }

    /// Returns the block that contains `addr`, used or free.
    pub fn at(&self, addr: Addr) -> Option<Block> {
        let part = self.part(addr)?;
        Some(part.block(part.start_of(addr.get())?)).filter(|b| b.range.contains(addr))
    }

    /// Returns the id of the block that contains `addr`, used or free.
    pub fn id_at(&self, addr: Addr) -> Option<BlockId> {
        let part = self.part(addr)?;
        part.start_of(addr.get()).map(|start| part.id(start))
    }

    /// Returns the id of the used block that contains `addr`. The lookup is faster if `addr` is in part `near`. Most
    /// pointers lead into the part that contains them.
    #[inline]
    pub fn used_at(&self, addr: Addr, near: usize) -> Option<BlockId> {
        let near = self.parts.get(near).filter(|p| (p.first..p.until).contains(&addr.get()));
        let part = match near {
            Some(part) => part,
            None => self.part(addr)?,
        };
        part.start_of(addr.get()).filter(|&start| part.is_used(start)).map(|start| part.id(start))
    }

    /// Visits all used blocks without a mark, in parallel, each with the number of its part.
    pub fn each_unmarked(&self, marks: &BlockMarks, visit: impl Fn(usize, Block) + Sync) {
        self.parts.par_iter().enumerate().for_each(|(number, part)| {
            part.words.par_chunks(TASK).enumerate().for_each(|(task, words)| {
                for (i, word) in words.iter().enumerate() {
                    let i = task * TASK + i;
                    let mut left = word.used & !marks.word(part.base + i);
                    while left != 0 {
                        visit(number, part.block(i as u64 * 64 + lowest(left)));
                        left &= left - 1;
                    }
                }
            });
        });
    }

    /// Visits the blocks whose start bits are set in `left`, each with the number of its part. `word` is the index of
    /// the bit word, counted over all parts.
    pub(super) fn each_of(&self, word: usize, mut left: u64, visit: &mut impl FnMut(usize, Block)) {
        let Some(number) = self.parts.partition_point(|p| p.base <= word).checked_sub(1) else { return };
        let Some(part) = self.parts.get(number) else { return };
        while left != 0 {
            visit(number, part.block((word - part.base) as u64 * 64 + lowest(left)));
            left &= left - 1;
        }
    }

    /// Returns marks for all blocks, none set.
    pub fn marks(&self) -> BlockMarks {
        BlockMarks { words: zeros(self.words) }
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The bits of the used starts, over all parts.
    pub(super) fn used_words(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|part| part.words.iter().map(|word| word.used))
    }
}

pub(super) fn zeros(len: usize) -> Vec<AtomicU64> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

/// One mark per block.
pub struct BlockMarks {
    words: Vec<AtomicU64>,
}

impl BlockMarks {
    /// Marks a block. Returns whether it had no mark before.
    #[inline]
    pub fn mark(&self, id: BlockId) -> bool {
        let (bit, Some(word)) = (id.bit(), self.words.get(id.word())) else { return false };
        // Most blocks are already marked, and a load is cheaper than a locked write.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Removes the mark of a block.
    #[inline]
    pub fn clear(&self, id: BlockId) {
        if let Some(word) = self.words.get(id.word()) {
            word.fetch_and(!id.bit(), Ordering::Relaxed);
        }
    }

    /// Whether a block is marked.
    pub fn has(&self, id: BlockId) -> bool {
        self.word(id.word()) >> (id.0 % 64) & 1 != 0
    }

    fn word(&self, i: usize) -> u64 {
        self.words.get(i).map_or(0, |w| w.load(Ordering::Relaxed))
    }
}

impl BlockId {
    /// Index of the bit word with the block's start.
    pub(super) fn word(self) -> usize {
        (self.0 / 64) as usize
    }

    /// Mask of the block's bit in that word.
    pub(super) fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

#[cfg(test)]
impl Blocks {
    /// Makes blocks from chunks (address, size, used), one slice per part.
    pub(super) fn of_parts(parts: &[&[(u64, u64, bool)]]) -> Blocks {
        let part = |chunks: &&[(u64, u64, bool)]| {
            let mut bits = BlockBitmap { mem: 16, tail: 8, ..BlockBitmap::default() };
            chunks.iter().for_each(|&(at, size, used)| bits.set(at, size, used));
            bits
        };
        Blocks::of(parts.iter().map(part).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    fn blocks(chunks: &[(u64, u64, bool)]) -> Blocks {
        Blocks::of_parts(&[chunks])
    }

    /// Returns chunk address, size and use of the block at `addr`.
    fn found(blocks: &Blocks, addr: u64) -> Option<(u64, u64, bool)> {
        blocks.at(Addr::new(addr)).map(|b| (b.range.start.get() - 16, b.size, b.used))
    }

    #[test]
    fn every_byte_of_every_block_leads_to_it_and_headers_to_none() {
        // A chunk much larger than the distance of checkpoints, between small ones.
        let large = (CHECKPOINT_WORDS as u64 * 64 * ALIGN) * 3 + 0x40;
        let chunks = [
            (0x1000, 0x20, true),
            (0x1020, 0x40, false),
            (0x1060, large, true),
            (0x1060 + large, 0x30, true),
            // Follows a gap without chunks.
            (0x2000 + large, 0x20, true),
        ];
        let blocks = blocks(&chunks);
        for (at, size, used) in chunks {
            let end = at + size + 8;
            for addr in [at + 16, at + 17, at + size / 2 + 8, end - 1] {
                assert_eq!(found(&blocks, addr), Some((at, size, used)), "{addr:#x}");
            }
        }
        for addr in [0, 0xfff, 0x1000, 0x100f, 0x1028, 0x1068, 0x1500 + large, 0x2028 + large] {
            assert_eq!(found(&blocks, addr).filter(|f| f.2), None, "{addr:#x}");
        }
    }

    #[test]
    fn used_blocks_of_all_parts_are_found_whichever_is_near() {
        let low = [(0x1000, 0x20, true), (0x1020, 0x40, false), (0x1060, 0x20, true)];
        let high = [(0x7f00_0000_1000, 0x30, true)];
        let blocks = Blocks::of_parts(&[&high, &low]);
        for addr in (0x0ff0..0x1090).chain(0x7f00_0000_0ff0..0x7f00_0000_1050).map(Addr::new) {
            let wanted = blocks.at(addr).filter(|b| b.used).map(|b| b.id);
            for near in 0..3 {
                assert_eq!(blocks.used_at(addr, near), wanted, "{addr} near {near}");
            }
        }
        let marks = blocks.marks();
        assert!(blocks.at(Addr::new(0x1010)).is_some_and(|b| marks.mark(b.id)));
        let left = Mutex::new(Vec::new());
        blocks.each_unmarked(&marks, |part, b| {
            left.lock().unwrap_or_else(PoisonError::into_inner).push((part, b.range.start.get()))
        });
        let mut left = left.into_inner().unwrap_or_else(PoisonError::into_inner);
        left.sort_unstable();
        assert_eq!(left, [(0, 0x1070), (1, 0x7f00_0000_1010)]);
    }

    #[test]
    fn a_block_is_marked_once() {
        let blocks = blocks(&[(0x1000, 0x20, true), (0x1020, 0x20, true)]);
        let marks = blocks.marks();
        let (first, second) = (blocks.at(Addr::new(0x1010)).map(|b| b.id), blocks.at(Addr::new(0x1030)).map(|b| b.id));
        let (Some(first), Some(second)) = (first, second) else { panic!("no blocks") };
        assert!(marks.mark(first) && !marks.mark(first));
        assert!(marks.has(first) && !marks.has(second));
    }
}

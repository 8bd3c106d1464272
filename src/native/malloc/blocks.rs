//! Which block an address is in: a bit for each place where a chunk may begin.
//!
//! Two bits for each 16 bytes of heap, and a station now and then, so that a
//! lookup in the middle of a large chunk need not go through all of it.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::native::malloc::{Chunk, FreeLists, Malloc, State};
use crate::process::Process;

/// Chunks begin at multiples of this (MALLOC_ALIGNMENT on 64 bits).
const ALIGN: u64 = 16;

/// Words of bits between two stations.
const STATION: usize = 512;

/// No chunk begins there.
const NONE: u64 = u64::MAX;

/// Number of a block: its part, and its place in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    part: u32,
    bit: u64,
}

/// A block that malloc gave out, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which one.
    pub id: BlockId,
    /// What the program may use: from what malloc returned on.
    pub range: AddrRange,
    /// Bytes of its chunk, header and all.
    pub size: u64,
    /// Whether it is in use.
    pub used: bool,
}

/// All blocks of a process.
#[derive(Debug, Default)]
pub struct Blocks {
    /// By address.
    parts: Vec<Bits>,
    /// Whether a part of the heap is too large for all its blocks to be known.
    pub capped: bool,
}

/// The blocks of one part of an arena, or one chunk with a mapping of its own.
#[derive(Debug, Default)]
struct Bits {
    first: u64,
    end: u64,
    mem: u64,
    tail: u64,
    starts: Vec<u64>,
    used: Vec<u64>,
    /// For each [`STATION`] words: the last start before them.
    before: Vec<u64>,
    /// For each [`STATION`] words: the first start behind them.
    behind: Vec<u64>,
    /// Whether chunks lie too far from the first one.
    capped: bool,
    /// Used chunks that may be caches of threads that are gone.
    caches: Vec<Addr>,
}

impl Bits {
    fn set(&mut self, chunk: u64, size: u64, used: bool) {
        if self.starts.is_empty() {
            (self.first, self.end) = (chunk, chunk);
        }
        // What lies between the chunk before and this one is no chunk's.
        if self.end != chunk {
            self.begin(self.end, false);
        }
        self.begin(chunk, used);
        self.end = chunk.saturating_add(size);
    }

    fn begin(&mut self, at: u64, used: bool) {
        let bit = at.saturating_sub(self.first) / ALIGN;
        let word = (bit / 64) as usize;
        if word >= self.starts.len() {
            if bit >= limits::MAX_HEAP_PART / ALIGN {
                self.capped = true;
                return;
            }
            self.starts.resize(word + 1, 0);
            self.used.resize(word + 1, 0);
        }
        if let (Some(starts), Some(of)) = (self.starts.get_mut(word), self.used.get_mut(word)) {
            *starts |= 1 << (bit % 64);
            *of |= u64::from(used) << (bit % 64);
        }
    }

    fn finish(&mut self) {
        let mut last = NONE;
        for words in self.starts.chunks(STATION) {
            self.before.push(last);
            let base = (self.before.len() - 1) * STATION;
            if let Some((i, word)) = words.iter().enumerate().rfind(|(_, w)| **w != 0) {
                last = (base + i) as u64 * 64 + u64::from(63 - word.leading_zeros());
            }
        }
        let mut next = NONE;
        self.behind = vec![NONE; self.before.len()];
        for (k, words) in self.starts.chunks(STATION).enumerate().rev() {
            if let Some(behind) = self.behind.get_mut(k) {
                *behind = next;
            }
            if let Some((i, word)) = words.iter().enumerate().find(|(_, w)| **w != 0) {
                next = (k * STATION + i) as u64 * 64 + u64::from(word.trailing_zeros());
            }
        }
    }

    /// The last start at or before `bit`.
    fn start_at(&self, bit: u64) -> Option<u64> {
        let word = (bit / 64) as usize;
        let station = word / STATION;
        let here = self.starts.get(word)? & (u64::MAX >> (63 - bit % 64));
        if here != 0 {
            return Some(bit / 64 * 64 + u64::from(63 - here.leading_zeros()));
        }
        let before = self.starts.get(station * STATION..word)?;
        match before.iter().rposition(|w| *w != 0) {
            Some(i) => {
                let word = before.get(i)?;
                Some((station * STATION + i) as u64 * 64 + u64::from(63 - word.leading_zeros()))
            }
            None => self.before.get(station).copied().filter(|b| *b != NONE),
        }
    }

    /// The first start behind `bit`; the end where there is none.
    fn next_start(&self, bit: u64) -> u64 {
        let word = (bit / 64) as usize;
        let station = word / STATION;
        let here = self.starts.get(word).map_or(0, |w| w & !(u64::MAX >> (63 - bit % 64)));
        if here != 0 {
            return bit / 64 * 64 + u64::from(here.trailing_zeros());
        }
        let end = ((station + 1) * STATION).min(self.starts.len());
        let behind = self.starts.get(word + 1..end).unwrap_or_default();
        match behind.iter().enumerate().find(|(_, w)| **w != 0) {
            Some((i, w)) => (word + 1 + i) as u64 * 64 + u64::from(w.trailing_zeros()),
            None => match self.behind.get(station) {
                Some(&next) if next != NONE => next,
                _ => self.end.saturating_sub(self.first) / ALIGN,
            },
        }
    }

    fn block(&self, part: u32, start: u64) -> Block {
        let size = (self.next_start(start) - start) * ALIGN;
        let at = self.first.saturating_add(start * ALIGN);
        let used = self.used.get((start / 64) as usize).is_some_and(|w| w >> (start % 64) & 1 != 0);
        let range =
            AddrRange::new(Addr::new(at.saturating_add(self.mem)), Addr::new(at.saturating_add(size + self.tail)));
        Block { id: BlockId { part, bit: start }, range, size, used }
    }
}

impl Blocks {
    /// The blocks of all arenas, and those with mappings of their own.
    pub fn read(process: &Process, malloc: &Malloc, lists: &FreeLists) -> Blocks {
        let mem = malloc.block(Addr::NULL).get();
        // The next chunk's first word is this one's to use, but not behind a mapping.
        let tail = |mapped| malloc.usable(1 << 20, mapped) + mem - (1 << 20);
        let set = |bits: &mut Bits, c: &Chunk| {
            let used = c.state == State::Used;
            bits.set(c.address.get(), c.size, used);
            // One more than are looked at, to tell that there are more.
            if used && malloc.is_cache_size(c.size) && bits.caches.len() <= limits::MAX_TCACHES {
                bits.caches.push(c.address);
            }
        };
        let walked = malloc.walk(process, lists, |_| Bits { mem, tail: tail(false), ..Bits::default() }, set);
        let mut parts: Vec<Bits> = walked.into_iter().map(|(_, _, bits, _)| bits).collect();
        for chunk in &malloc.mapped {
            let mut bits = Bits { mem, tail: tail(true), ..Bits::default() };
            // One start is enough: the rest of its bits would be none.
            bits.set(chunk.chunk.get(), chunk.size, lists.state_of(chunk.chunk).is_none());
            parts.push(bits);
        }
        parts.retain(|p| !p.starts.is_empty());
        parts.sort_by_key(|p| p.first);
        parts.iter_mut().for_each(Bits::finish);
        let capped = parts.iter().any(|p| p.capped);
        Blocks { parts, capped }
    }

    /// Used chunks that may be caches of threads that are gone, and whether there are
    /// more than are looked at.
    pub fn caches(&self) -> (Vec<Addr>, bool) {
        let all = || self.parts.iter().flat_map(|p| p.caches.iter().copied());
        (all().take(limits::MAX_TCACHES).collect(), all().nth(limits::MAX_TCACHES).is_some())
    }

    /// From the first block to the end of the last.
    pub fn hull(&self) -> AddrRange {
        let (first, last) = (self.parts.first(), self.parts.iter().map(|p| p.end.saturating_add(p.tail)).max());
        AddrRange::new(Addr::new(first.map_or(0, |p| p.first)), Addr::new(last.unwrap_or(0)))
    }

    /// The block that `addr` is in, used or not.
    pub fn at(&self, addr: Addr) -> Option<Block> {
        let i = self.parts.partition_point(|p| p.first <= addr.get()).checked_sub(1)?;
        let part = self.parts.get(i)?;
        let number = addr.get();
        if number < part.first.saturating_add(part.mem) || number >= part.end.saturating_add(part.tail) {
            return None;
        }
        let last = (part.end - part.first).div_ceil(ALIGN).saturating_sub(1);
        let bit = ((number - part.tail - part.first) / ALIGN).min(last);
        // A chunk with a mapping of its own has one start and no bits behind it.
        let bit = bit.min(part.starts.len() as u64 * 64 - 1);
        let block = part.block(i as u32, part.start_at(bit)?);
        block.range.contains(addr).then_some(block)
    }

    /// Visit all used blocks, several at a time.
    pub fn each_used(&self, visit: impl Fn(Block) + Sync) {
        self.parts.par_iter().enumerate().for_each(|(part, bits)| {
            for (i, word) in bits.used.iter().enumerate() {
                for bit in (0..64).filter(|bit| word >> bit & 1 != 0) {
                    visit(bits.block(part as u32, i as u64 * 64 + bit));
                }
            }
        });
    }

    /// A mark for each block, none set.
    pub fn marks(&self) -> BlockMarks {
        let zeros = |bits: &Bits| bits.starts.iter().map(|_| AtomicU64::new(0)).collect();
        BlockMarks { parts: self.parts.iter().map(zeros).collect() }
    }
}

/// A mark for each block.
pub struct BlockMarks {
    parts: Vec<Vec<AtomicU64>>,
}

impl BlockMarks {
    /// Mark a block; whether it was not marked yet.
    pub fn mark(&self, id: BlockId) -> bool {
        let word = self.parts.get(id.part as usize).and_then(|p| p.get((id.bit / 64) as usize));
        word.is_some_and(|w| w.fetch_or(1 << (id.bit % 64), Ordering::Relaxed) >> (id.bit % 64) & 1 == 0)
    }

    /// Whether a block is marked.
    pub fn has(&self, id: BlockId) -> bool {
        let word = self.parts.get(id.part as usize).and_then(|p| p.get((id.bit / 64) as usize));
        word.is_some_and(|w| w.load(Ordering::Relaxed) >> (id.bit % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(chunks: &[(u64, u64, bool)]) -> Blocks {
        let mut bits = Bits { mem: 16, tail: 8, ..Bits::default() };
        for &(at, size, used) in chunks {
            bits.set(at, size, used);
        }
        bits.finish();
        Blocks { parts: vec![bits], capped: false }
    }

    /// Where `addr` is found to be: chunk, size, whether used.
    fn found(blocks: &Blocks, addr: u64) -> Option<(u64, u64, bool)> {
        blocks.at(Addr::new(addr)).map(|b| (b.range.start.get() - 16, b.size, b.used))
    }

    #[test]
    fn every_byte_of_every_block_leads_to_it_and_headers_to_none() {
        // A chunk far larger than the distance of stations among small ones.
        let large = (STATION as u64 * 64 * ALIGN) * 3 + 0x40;
        let chunks = [
            (0x1000, 0x20, true),
            (0x1020, 0x40, false),
            (0x1060, large, true),
            (0x1060 + large, 0x30, true),
            // After a hole without chunks.
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
    fn a_block_is_marked_once() {
        let blocks = blocks(&[(0x1000, 0x20, true), (0x1020, 0x20, true)]);
        let marks = blocks.marks();
        let (first, second) = (blocks.at(Addr::new(0x1010)).map(|b| b.id), blocks.at(Addr::new(0x1030)).map(|b| b.id));
        let (Some(first), Some(second)) = (first, second) else { panic!("no blocks") };
        assert!(marks.mark(first) && !marks.mark(first));
        assert!(marks.has(first) && !marks.has(second));
    }
}

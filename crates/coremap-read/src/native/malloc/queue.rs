//! A work queue of blocks in address order, so that neighbouring blocks are processed together.
//!
//! In the order of pointers, each block of a large heap costs several cache misses: 3,000,000 blocks of a Lua program
//! took 2.5 s. So queued blocks are bits. Higher levels of bits show which words have any bit set. A neighbourhood is
//! processed until it has no queued block.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::native::malloc::blocks::{Block, BlockId, Blocks, zeros};

/// The level whose words are the parallel tasks. Each covers 64 words of block bits (64 KiB of heap).
const TASK: usize = 1;

/// Fewer tasks than this run on one thread. A linked list through the whole heap has one task at a time, and other
/// threads would only wait.
const FEW: usize = 16;

/// A queue of blocks.
pub struct BlockQueue<'a> {
    blocks: &'a Blocks,
    /// Level 0 has a bit per block. Each higher level has a bit per word of the level below. The last level is one
    /// word.
    levels: Vec<Vec<AtomicU64>>,
}

impl<'a> BlockQueue<'a> {
    /// Returns an empty queue for `blocks`.
    pub fn new(blocks: &'a Blocks) -> BlockQueue<'a> {
        let mut levels = vec![zeros(blocks.words())];
        let mut len = blocks.words();
        // The task level exists even if there are few words below.
        while len > 1 || levels.len() <= TASK {
            len = len.div_ceil(64);
            levels.push(zeros(len));
        }
        BlockQueue { blocks, levels }
    }

    /// Adds a block.
    #[inline]
    pub fn push(&self, id: BlockId) {
        let (mut word, mut bit) = (id.word(), id.bit());
        for level in &self.levels {
            let Some(bits) = level.get(word) else { return };
            // Set the higher bits only if this word was 0. Otherwise the thread that set its first bit does so, or a
            // thread that takes this word has not read it yet. See `finish`.
            if bits.fetch_or(bit, Ordering::SeqCst) != 0 {
                return;
            }
            (word, bit) = (word / 64, 1 << (word % 64));
        }
    }

    /// Visits queued blocks until none is left, including blocks that `visit` adds. Tasks run in parallel, each with
    /// its own `S`. `visit` also gets the number of the block's part.
    pub fn drain<S: Default + Send>(&self, visit: impl Fn(&mut S, usize, Block) + Sync, mut join: impl FnMut(S)) {
        let mut tasks = Vec::new();
        loop {
            tasks.clear();
            self.take(self.levels.len() - 1, 0, &mut |word| tasks.push(word));
            let all = |tasks: &[usize]| {
                let mut state = S::default();
                for &task in tasks {
                    self.finish(TASK, task, &mut |number, block| visit(&mut state, number, block));
                }
                state
            };
            match tasks.len() {
                0 => return,
                n if n < FEW => join(all(&tasks)),
                _ => tasks.par_chunks(FEW / 2).map(all).collect::<Vec<S>>().into_iter().for_each(&mut join),
            }
        }
    }

    /// Passes to `each` the task words below word `word` of `level` that have a bit set.
    fn take(&self, level: usize, word: usize, each: &mut impl FnMut(usize)) {
        if level == TASK {
            if self.levels.get(level).and_then(|l| l.get(word)).is_some_and(|w| w.load(Ordering::SeqCst) != 0) {
                each(word);
            }
            return;
        }
        for bit in SetBits(self.swap(level, word)) {
            self.take(level - 1, word * 64 + bit, each);
        }
    }

    /// Visits the blocks below word `word` of `level` until none is queued.
    ///
    /// A word is cleared before the words below it are read. So a bit that is set below meanwhile is either seen there,
    /// or its bit is set here again.
    fn finish(&self, level: usize, word: usize, visit: &mut impl FnMut(usize, Block)) {
        loop {
            let bits = self.swap(level, word);
            if bits == 0 {
                return;
            }
            match level {
                0 => self.blocks.each_of(word, bits, visit),
                _ => SetBits(bits).for_each(|bit| self.finish(level - 1, word * 64 + bit, visit)),
            }
        }
    }

    fn swap(&self, level: usize, word: usize) -> u64 {
        let bits = self.levels.get(level).and_then(|l| l.get(word));
        bits.map_or(0, |bits| if bits.load(Ordering::SeqCst) == 0 { 0 } else { bits.swap(0, Ordering::SeqCst) })
    }
}

/// Iterates over the indexes of the set bits of a word.
struct SetBits(u64);

impl Iterator for SetBits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;

    /// Marks the blocks reachable from the first one. `next` returns the blocks that block `i` points to.
    fn reached(parts: &[&[(u64, u64, bool)]], next: &(impl Fn(usize) -> Vec<usize> + Sync)) -> Vec<bool> {
        let all: Vec<u64> = parts.iter().flat_map(|p| p.iter().map(|c| c.0 + 16)).collect();
        let blocks = Blocks::of_parts(parts);
        let (queue, marks) = (BlockQueue::new(&blocks), blocks.marks());
        let put = |i: usize| {
            if let Some(id) = blocks.used_at(Addr::new(all[i]), 0).filter(|id| marks.mark(*id)) {
                queue.push(id);
            }
        };
        put(0);
        let (mut count, mut firsts) = (0, 0);
        queue.drain(
            |seen: &mut (usize, usize), part, block| {
                seen.0 += 1;
                seen.1 += usize::from(part == 0);
                let at = all.binary_search(&block.range.start.get());
                at.into_iter().flat_map(next).for_each(put);
            },
            |seen| (count, firsts) = (count + seen.0, firsts + seen.1),
        );
        let has = |&at: &u64| blocks.at(Addr::new(at)).is_some_and(|b| marks.has(b.id));
        let found: Vec<bool> = all.iter().map(has).collect();
        assert_eq!(count, found.iter().filter(|f| **f).count(), "each is visited once");
        assert_eq!(firsts, found.iter().take(parts[0].len()).filter(|f| **f).count());
        found
    }

    #[test]
    fn all_that_can_be_reached_is_visited_once_and_nothing_else() {
        let low: Vec<_> = (0..30_000).map(|i| (0x10_0000 + 48 * i, 48, true)).collect();
        let high: Vec<_> = (0..20_000).map(|i| (0x7f00_0000_0000 + 4096 * i, 4096, true)).collect();
        let (parts, n) = ([&low[..], &high[..]], 50_000_usize);
        // A list that jumps across the heap, through every second block.
        let list = reached(&parts, &|i| vec![(i + 2 * 15_401) % n]);
        assert!(list.iter().enumerate().all(|(i, found)| *found == (i % 2 == 0)));
        // Each block leads to several: a tree of the even blocks, with back-edges.
        let tree = reached(&parts, &|i| (1..4).map(|k| (3 * i + 2 * k) % n / 2 * 2).chain([i / 4 * 2]).collect());
        let mut wanted = vec![false; n];
        let mut stack = vec![0_usize];
        while let Some(i) = stack.pop() {
            if !std::mem::replace(&mut wanted[i], true) {
                stack.extend((1..4).map(|k| (3 * i + 2 * k) % n / 2 * 2).chain([i / 4 * 2]));
            }
        }
        assert_eq!(tree, wanted);
    }

    #[test]
    fn of_no_blocks_and_of_one() {
        let nothing = Blocks::default();
        BlockQueue::new(&nothing).drain(|(): &mut (), _, _| panic!("a block"), |()| panic!("a state"));
        assert_eq!(reached(&[&[(0x1000, 0x20, true)]], &|_| vec![0]), [true]);
    }
}

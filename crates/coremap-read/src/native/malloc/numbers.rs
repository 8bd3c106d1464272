//! Numbers of used blocks: 0, 1, 2 and so on, in the order of addresses.

use std::ops::Range;

use crate::native::malloc::blocks::{Block, BlockId, Blocks};

/// Numbers of all used blocks. One entry for each 64 possible starts (1 KiB of heap).
pub struct BlockNumbers {
    /// Bits of the starts of used blocks, and the number of the first of these blocks.
    words: Vec<(u64, u32)>,
    len: u32,
}

impl BlockNumbers {
    /// Numbers the used blocks. `None` if there are too many for 32 bits.
    pub fn new(blocks: &Blocks) -> Option<BlockNumbers> {
        let mut words = Vec::with_capacity(blocks.words());
        let mut len = 0_u32;
        for used in blocks.used_words() {
            words.push((used, len));
            len = len.checked_add(used.count_ones())?;
        }
        Some(BlockNumbers { words, len })
    }

    /// The number of used blocks.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no used blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of a block. `None` if it is free.
    #[inline]
    pub fn of(&self, id: BlockId) -> Option<u32> {
        let (used, before) = *self.words.get(id.word())?;
        (used & id.bit() != 0).then(|| before.saturating_add((used & id.bit().wrapping_sub(1)).count_ones()))
    }

    /// Ranges of entries for parallel work, in order.
    pub fn tasks(&self) -> Vec<Range<usize>> {
        let len = self.words.len();
        (0..len).step_by(TASK).map(|from| from..from.saturating_add(TASK).min(len)).collect()
    }

    /// The range of all entries.
    pub fn all(&self) -> Range<usize> {
        0..self.words.len()
    }

    /// Visits the used blocks of a range of entries in order, each with the number of its part.
    pub fn each(&self, blocks: &Blocks, entries: Range<usize>, mut visit: impl FnMut(usize, Block)) {
        for (word, (used, _)) in entries.clone().zip(self.words.get(entries).unwrap_or_default()) {
            blocks.each_of(word, *used, &mut visit);
        }
    }
}

/// Entries per parallel task (1 MiB of heap).
const TASK: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;

    #[test]
    fn used_blocks_are_numbered_by_address_over_all_parts() {
        let low = [(0x1000, 0x20, true), (0x1020, 0x40, false), (0x1060, 0x20, true)];
        let high = [(0x7f00_0000_1000, 0x30, true)];
        let blocks = Blocks::of_parts(&[&high, &low]);
        let numbers = BlockNumbers::new(&blocks).unwrap_or_else(|| panic!("no numbers"));
        let of = |at| blocks.id_at(Addr::new(at)).and_then(|id| numbers.of(id));
        assert_eq!((of(0x1010), of(0x1030), of(0x1070), of(0x7f00_0000_1010)), (Some(0), None, Some(1), Some(2)));
        let mut all = Vec::new();
        for task in numbers.tasks() {
            numbers.each(&blocks, task, |_, block| all.push(block.range.start.get()));
        }
        assert_eq!((all, numbers.len()), (vec![0x1010, 0x1070, 0x7f00_0000_1010], 3));
    }
}

//! Marks for the search for one object: one bit per word of the heap. The marks of the last root can be undone.

use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};

/// Number of mark words in a block. Changes are tracked and undone per block.
const BLOCK: usize = 512;

/// One mark per word of the heap.
pub(super) struct VisitedWords {
    words: Table<u64>,
    /// The marks after the last `settle`.
    committed: Table<u64>,
    /// One bit per block: whether `words` and `done` may differ there.
    changed: Vec<u64>,
}

impl VisitedWords {
    /// Creates cleared marks for `words` words of the heap.
    ///
    /// # Errors
    /// [`GraphError::NoSpace`]
    pub(super) fn new(words: u64, budget: &MemoryBudget) -> Result<VisitedWords, GraphError> {
        let len = (words / 64 + 1) as usize;
        let changed = vec![0; len / BLOCK / 64 + 1];
        Ok(VisitedWords { words: budget.table(len)?, committed: budget.table(len)?, changed })
    }

    /// The 64 marks that include the one at `index`.
    #[inline(always)]
    pub(super) fn word(&self, index: u64) -> u64 {
        self.words.get((index / 64) as usize).copied().unwrap_or(0)
    }

    /// Marks a word. Returns whether it was unmarked before.
    #[inline(always)]
    pub(super) fn mark(&mut self, index: u64) -> bool {
        let at = (index / 64) as usize;
        let Some(word) = self.words.get_mut(at) else { return false };
        let bit = 1 << (index % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        let block = at / BLOCK;
        if let Some(changed) = self.changed.get_mut(block / 64) {
            *changed |= 1 << (block % 64);
        }
        true
    }

    /// Keeps the marks made since the last call, or undoes them.
    pub(super) fn commit_or_undo(&mut self, keep: bool) {
        for (i, changed) in self.changed.iter_mut().enumerate() {
            let bits = std::mem::take(changed);
            for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                let from = (i * 64 + bit) * BLOCK;
                let to = (from + BLOCK).min(self.words.len());
                let words = self.words.get_mut(from..to).unwrap_or_default();
                let done = self.committed.get_mut(from..to).unwrap_or_default();
                for (word, done) in words.iter_mut().zip(done) {
                    if keep {
                        *done = *word;
                    } else {
                        *word = *done;
                    }
                }
            }
        }
    }
}

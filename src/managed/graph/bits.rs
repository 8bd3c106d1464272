//! Rows of bits that several threads may set at once.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

/// A bit for each number.
pub(super) struct Bits {
    words: Vec<AtomicU64>,
}

impl Bits {
    /// So many, none set.
    pub(super) fn new(len: usize) -> Bits {
        Bits { words: (0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Those that `pick` takes.
    pub(super) fn of(len: u32, pick: impl Fn(u32) -> bool + Sync) -> Bits {
        let word = |at: u32| {
            let from = at * 64;
            let some = (0..64).filter(|bit| from + bit < len && pick(from + bit));
            AtomicU64::new(some.fold(0, |word, bit| word | 1 << bit))
        };
        Bits { words: (0..len.div_ceil(64)).into_par_iter().map(word).collect() }
    }

    /// Whether it is set.
    #[inline(always)]
    pub(super) fn has(&self, number: u32) -> bool {
        let word = self.words.get(number as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
    }

    /// Set it; whether it was not set yet.
    #[inline(always)]
    pub(super) fn set(&self, number: u32) -> bool {
        let Some(word) = self.words.get(number as usize / 64) else { return false };
        let bit = 1 << (number % 64);
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// The same where no other thread sets any.
    #[inline(always)]
    pub(super) fn set_alone(&mut self, number: u32) -> bool {
        let Some(word) = self.words.get_mut(number as usize / 64) else { return false };
        let (word, bit) = (word.get_mut(), 1 << (number % 64));
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// Unset it where no other thread looks; whether it was set.
    #[inline(always)]
    pub(super) fn take(&mut self, number: u32) -> bool {
        let Some(word) = self.words.get_mut(number as usize / 64) else { return false };
        let (word, bit) = (word.get_mut(), 1 << (number % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// How many are set.
    pub(super) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// The same bits again.
    pub(super) fn copied(&self) -> Bits {
        Bits { words: self.words.iter().map(|word| AtomicU64::new(word.load(Ordering::Relaxed))).collect() }
    }
}

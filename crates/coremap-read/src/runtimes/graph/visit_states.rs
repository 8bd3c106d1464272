//! Two bits of state per object: whether it has references and, once visited, whether it has several referrers.
//!
//! The states of a whole heap are small enough to stay in the caches.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::runtimes::graph::rank_select::RankedBits;

/// Not visited, has no references.
pub(super) const LEAF: u64 = 0;
/// Not visited, has references.
pub(super) const HAS_REFS: u64 = 1;
/// Visited, with one referrer so far.
pub(super) const ONE_REFERRER: u64 = 2;
/// Visited, with several referrers.
pub(super) const SHARED: u64 = 3;

/// Number of objects per word.
const PER_WORD: u32 = 32;

/// The states of all objects, by ID.
pub(super) struct VisitStates {
    words: Vec<AtomicU64>,
}

impl VisitStates {
    /// Creates the states of unvisited objects. `holders` has one bit per object: whether it has references. Bit 0 of
    /// each word is an object whose ID is a multiple of 64.
    pub(super) fn new(holders: impl Iterator<Item = u64>) -> VisitStates {
        let spread = |bits: u64| {
            // Moves each bit to the lower bit of its pair.
            let mut all = bits & 0xffff_ffff;
            for (shift, mask) in [
                (16, 0xffff_0000_ffff),
                (8, 0x00ff_00ff_00ff_00ff),
                (4, 0x0f0f_0f0f_0f0f_0f0f),
                (2, 0x3333_3333_3333_3333),
                (1, 0x5555_5555_5555_5555),
            ] {
                all = (all | all << shift) & mask;
            }
            AtomicU64::new(all)
        };
        VisitStates { words: holders.flat_map(|bits| [spread(bits), spread(bits >> 32)]).collect() }
    }

    /// Size of the table in bytes.
    pub(super) fn bytes(&self) -> u64 {
        8 * self.words.len() as u64
    }

    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> u64 {
        let word = self.words.get((id / PER_WORD) as usize).map_or(LEAF, |word| word.load(Ordering::Relaxed));
        word >> (2 * (id % PER_WORD)) & 3
    }

    /// Sets the state. Only one thread may do so at a time, because the update is not atomic.
    #[inline(always)]
    pub(super) fn set(&self, id: u32, state: u64) {
        if let Some(word) = self.words.get((id / PER_WORD) as usize) {
            let at = 2 * (id % PER_WORD);
            let others = word.load(Ordering::Relaxed) & !(3 << at);
            word.store(others | state << at, Ordering::Relaxed);
        }
    }

    /// Whether the object was visited.
    #[inline(always)]
    pub(super) fn is_visited(&self, id: u32) -> bool {
        self.get(id) >= ONE_REFERRER
    }

    pub(super) fn any(&self, state: u64) -> bool {
        (0..self.words.len().div_ceil(2)).into_par_iter().any(|number| self.word(number, state) != 0)
    }

    /// The set of objects that have this state.
    pub(super) fn set_of(&self, state: u64) -> RankedBits {
        RankedBits::new(
            (0..self.words.len().div_ceil(2)).into_par_iter().map(|number| self.word(number, state)).collect(),
        )
    }

    /// One bit per object for the 64 objects from ID `64 * number`: whether it has this state.
    #[inline(always)]
    pub(super) fn word(&self, number: usize, state: u64) -> u64 {
        let half = |at: usize| {
            let word = self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
            let low = if state & 1 != 0 { word } else { !word };
            let high = if state & 2 != 0 { word } else { !word };
            let mut all = low & high >> 1 & 0x5555_5555_5555_5555;
            for (shift, mask) in [
                (1, 0x3333_3333_3333_3333),
                (2, 0x0f0f_0f0f_0f0f_0f0f),
                (4, 0x00ff_00ff_00ff_00ff),
                (8, 0xffff_0000_ffff),
                (16, 0xffff_ffff),
            ] {
                all = (all | all >> shift) & mask;
            }
            all
        };
        half(2 * number) | half(2 * number + 1) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_is_as_it_was_set(bits: [u64; 3], set in prop::collection::vec((0_u32..192, 0_u64..4), 0..40)) {
            let states = VisitStates::new(bits.into_iter());
            let mut expected: Vec<u64> = (0..192).map(|i: usize| bits[i / 64] >> (i % 64) & 1).collect();
            for (id, state) in set {
                states.set(id, state);
                expected[id as usize] = state;
            }
            for (id, &state) in (0..).zip(&expected) {
                prop_assert_eq!((states.get(id), states.is_visited(id)), (state, state >= ONE_REFERRER));
            }
            for number in 0..3 {
                for state in [LEAF, HAS_REFS, ONE_REFERRER, SHARED] {
                    let word: u64 = (0..64).map(|i| u64::from(expected[64 * number + i] == state) << i).sum();
                    prop_assert_eq!(states.word(number, state), word);
                }
            }
        }
    }
}

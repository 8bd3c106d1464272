//! Bit sets with fast rank and select.
//!
//! No search depends on the distance between set bits: beyond the group of words at hand, the counts before each group
//! lead to the next set bit. Children of a hub are millions of clear bits, and each may ask for its neighbour.

use crate::runtimes::graph::work::step;

/// A bit set that knows how many bits are set before each group of words.
pub(super) struct RankedBits {
    words: Vec<u64>,
    /// Number of set bits before each group of [`GROUP`] words.
    before: Vec<u32>,
}

/// Number of words in a group.
const GROUP: usize = 8;

impl RankedBits {
    /// Creates the set from its words and counts their bits.
    pub(super) fn new(words: Vec<u64>) -> RankedBits {
        let mut sum = 0_u32;
        let count = |words: &[u64]| {
            let before = sum;
            sum += words.iter().map(|word| word.count_ones()).sum::<u32>();
            before
        };
        let before = words.chunks(GROUP).map(count).collect();
        RankedBits { words, before }
    }

    /// The word at index `at`, or 0.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// Size of the set in bytes.
    pub(super) fn bytes(&self) -> u64 {
        8 * self.words.len() as u64 + 4 * self.before.len() as u64
    }

    #[inline(always)]
    pub(super) fn has(&self, at: u32) -> bool {
        self.words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    /// Number of set bits before `at`.
    #[inline]
    pub(super) fn rank(&self, at: u32) -> u32 {
        let word = at as usize / 64;
        let from = word / GROUP * GROUP;
        step(1);
        let whole: u32 = self.words.get(from..word).unwrap_or_default().iter().map(|word| word.count_ones()).sum();
        let part = self.words.get(word).map_or(0, |bits| (bits & ((1 << (at % 64)) - 1)).count_ones());
        self.before.get(word / GROUP).map_or(0, |before| before + whole + part)
    }

    /// Position of the set bit with `rank` set bits before it. `None` if there are not that many.
    pub(super) fn select(&self, rank: u32) -> Option<u32> {
        step(self.before.len().checked_ilog2().unwrap_or(0) as usize + 1);
        let group = self.before.partition_point(|&before| before <= rank).checked_sub(1)?;
        let mut left = rank - self.before.get(group)?;
        for (at, &bits) in (group * GROUP..).zip(self.words.get(group * GROUP..)?) {
            let count = bits.count_ones();
            if left < count {
                let mut bits = bits;
                (0..left).for_each(|_| bits &= bits - 1);
                return Some(at as u32 * 64 + bits.trailing_zeros());
            }
            left -= count;
        }
        None
    }

    /// Position of the first set bit at or after `at`.
    #[inline]
    pub(super) fn next(&self, at: u32) -> Option<u32> {
        step(1);
        let word = at as usize / 64;
        let first = self.words.get(word)? >> (at % 64);
        if first != 0 {
            return Some(at + first.trailing_zeros());
        }
        let next_group = word / GROUP + 1;
        let rest = self.words.get(word + 1..(next_group * GROUP).min(self.words.len()))?;
        if let Some((skipped, bits)) = rest.iter().enumerate().find(|(_, bits)| **bits != 0) {
            return Some((word + 1 + skipped) as u32 * 64 + bits.trailing_zeros());
        }
        self.select(*self.before.get(next_group)?)
    }

    /// Iterates the positions of all set bits.
    pub(super) fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).step_by(64).zip(&self.words).flat_map(|(first, &bits)| {
            let mut bits = bits;
            std::iter::from_fn(move || {
                let at = (bits != 0).then(|| first + bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
                at
            })
        })
    }

    /// Position of the last set bit before `at`.
    #[inline]
    pub(super) fn previous(&self, at: u32) -> Option<u32> {
        step(1);
        let word = at as usize / 64;
        let here = self.words.get(word).map_or(0, |bits| bits & ((1 << (at % 64)) - 1));
        if here != 0 {
            return Some(word as u32 * 64 + 63 - here.leading_zeros());
        }
        let group = word / GROUP;
        let rest = self.words.get(group * GROUP..word)?;
        if let Some((skipped, bits)) = rest.iter().enumerate().rfind(|(_, bits)| **bits != 0) {
            return Some((group * GROUP + skipped) as u32 * 64 + 63 - bits.leading_zeros());
        }
        let before = self.before.get(group).copied().unwrap_or_else(|| self.count());
        self.select(before.checked_sub(1)?)
    }

    pub(super) fn count(&self) -> u32 {
        let last = self.before.last().copied().unwrap_or(0);
        let from = self.before.len().saturating_sub(1) * GROUP;
        last + self.words.get(from..).unwrap_or_default().iter().map(|word| word.count_ones()).sum::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::graph::work::work_of;
    use proptest::prelude::*;

    #[test]
    fn a_search_does_not_depend_on_the_gap() {
        // Two bits, a million apart.
        let mut words = vec![0_u64; 1 << 14];
        (words[0], words[(1 << 14) - 1]) = (1, 1 << 63);
        let last = (1 << 20) - 1;
        let ranked = RankedBits::new(words);
        let found = work_of(|| (ranked.next(1), ranked.previous(last), ranked.next(last), ranked.previous(1)));
        assert_eq!(found.0, (Some(last), Some(0), Some(last), Some(0)));
        assert!(found.1 <= 100, "{} steps", found.1);
    }

    proptest! {
        #[test]
        fn ranks_and_places_are_each_other_s(words in prop::collection::vec(prop_oneof![Just(0), any::<u64>()], 0..40)) {
            let ranked = RankedBits::new(words.clone());
            let set: Vec<u32> = (0..64 * words.len() as u32).filter(|&at| words[at as usize / 64] >> (at % 64) & 1 != 0).collect();
            prop_assert_eq!(ranked.count() as usize, set.len());
            prop_assert!(ranked.positions().eq(set.iter().copied()));
            for at in 0..64 * words.len() as u32 + 2 {
                let before = set.iter().filter(|&&other| other < at).count();
                if (at as usize) < 64 * words.len() {
                    prop_assert_eq!(ranked.rank(at) as usize, before);
                }
                if at as usize <= 64 * words.len() {
                    prop_assert_eq!(ranked.previous(at), set[..before].last().copied());
                }
                prop_assert_eq!(ranked.next(at), set.get(before).copied());
                prop_assert_eq!(ranked.has(at), set.contains(&at));
            }
            for (rank, &at) in (0..).zip(&set) {
                prop_assert_eq!(ranked.select(rank), Some(at));
            }
            prop_assert_eq!(ranked.select(set.len() as u32), None);
        }
    }
}

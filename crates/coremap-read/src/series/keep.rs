//! Selects the rows of a long list that a sample stores, so that a recording stays small and a series has no gaps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use crate::limits;
use crate::series::moment::{Rest, Sum};

/// Maximum numbers of stored rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLimits {
    /// Rows with most bytes.
    pub(super) largest: usize,
    /// Rows whose bytes changed most since they were first seen.
    pub(super) changed: usize,
    /// All rows. A row that was stored once is stored in later samples too. Lists up to this length are stored whole.
    pub(super) ever: usize,
}

/// The rows stored so far.
pub(super) struct RowSelector<K> {
    limits: RowLimits,
    /// Bytes of each row when it was first seen.
    first: HashMap<K, u64>,
    kept: BTreeSet<K>,
    has_sample: bool,
}

impl<K: Clone + Ord + Hash> RowSelector<K> {
    pub(super) fn new(limits: RowLimits) -> RowSelector<K> {
        RowSelector { limits, first: HashMap::new(), kept: BTreeSet::new(), has_sample: false }
    }

    /// Returns the rows of a sample to store, and the sum of the others. A row that was stored before and is gone
    /// counts zero.
    pub(super) fn pick(&mut self, all: &BTreeMap<K, Sum>) -> (BTreeMap<K, Sum>, Rest) {
        for (key, sum) in all {
            if self.first.len() < limits::MAX_RECORDED_ROWS && !self.first.contains_key(key) {
                // Rows that appear later start from zero.
                self.first.insert(key.clone(), if self.has_sample { 0 } else { sum.bytes });
            }
        }
        self.has_sample = true;
        let change = |key: &K, sum: Sum| sum.bytes.abs_diff(self.first.get(key).copied().unwrap_or(sum.bytes));
        let best = |limit: usize, worth: &dyn Fn(&K, Sum) -> u64| {
            let mut rows: Vec<(u64, &K)> = all.iter().map(|(key, sum)| (worth(key, *sum), key)).collect();
            rows.retain(|(worth, _)| *worth > 0);
            rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
            rows.into_iter().take(limit).map(|(_, key)| key.clone()).collect::<Vec<K>>()
        };
        let mut kept = self.kept.clone();
        if all.len() <= self.limits.ever {
            kept.extend(all.keys().cloned());
        }
        kept.extend(best(self.limits.largest, &|_, sum| sum.bytes));
        kept.extend(best(self.limits.changed, &change));
        if kept.len() > self.limits.ever {
            let of = |key: &K| all.get(key).copied().unwrap_or_default();
            let mut rows: Vec<(u64, K)> =
                kept.into_iter().map(|key| (of(&key).bytes.max(change(&key, of(&key))), key)).collect();
            rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            kept = rows.into_iter().take(self.limits.ever).map(|(_, key)| key).collect();
        }
        self.kept = kept;
        let rows = self.kept.iter().map(|key| (key.clone(), all.get(key).copied().unwrap_or_default())).collect();
        let others = all.iter().filter(|(key, _)| !self.kept.contains(key)).map(|(_, sum)| *sum);
        let rest = others.fold(Rest::default(), |rest, sum| Rest {
            rows: rest.rows + 1,
            sum: rest.sum.plus(sum),
            largest: rest.largest.max(sum.bytes),
        });
        (rows, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(u32, u64)]) -> BTreeMap<u32, Sum> {
        of.iter().map(|&(key, bytes)| (key, Sum { count: 1, bytes })).collect()
    }

    #[test]
    fn the_largest_and_those_that_change_are_kept_from_then_on() {
        let mut selector = RowSelector::new(RowLimits { largest: 2, changed: 1, ever: 4 });
        let (kept, rest) = selector.pick(&rows(&[(1, 100), (2, 90), (3, 5), (4, 6), (5, 7)]));
        assert_eq!(kept.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(rest, Rest { rows: 3, sum: Sum { count: 3, bytes: 18 }, largest: 7 });
        // 3 grew most, 6 is new, and 2 is gone. Its row shows that.
        let (kept, rest) = selector.pick(&rows(&[(1, 100), (3, 50), (4, 6), (5, 7), (6, 20)]));
        assert_eq!(kept.iter().map(|(k, s)| (*k, s.bytes)).collect::<Vec<_>>(), [(1, 100), (2, 0), (3, 50)]);
        assert_eq!(rest.sum.bytes, 33);
        let (kept, _) = selector.pick(&rows(&[(1, 1), (3, 1), (4, 900), (5, 800), (6, 1)]));
        assert_eq!(kept.len(), 4, "{kept:?}");
        assert!(kept.contains_key(&4) && kept.contains_key(&5), "{kept:?}");
    }

    #[test]
    fn a_short_list_is_kept_whole() {
        let mut selector = RowSelector::new(RowLimits { largest: 1, changed: 1, ever: 3 });
        let (kept, rest) = selector.pick(&rows(&[(1, 100), (2, 90), (3, 5)]));
        assert_eq!((kept.len(), rest), (3, Rest::default()));
        // A fourth row replaces the smallest.
        let (kept, rest) = selector.pick(&rows(&[(1, 100), (2, 90), (3, 5), (4, 50)]));
        assert_eq!(kept.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(rest.rows, 1);
    }

    #[test]
    fn all_sums_add_up() {
        let mut selector = RowSelector::new(RowLimits { largest: 3, changed: 2, ever: 6 });
        for look in 0..20u32 {
            let all: BTreeMap<u32, Sum> =
                (0..30).map(|i| (i, Sum { count: 2, bytes: u64::from((i * 7 + look * i) % 13) })).collect();
            let (kept, rest) = selector.pick(&all);
            let sum = |rows: &BTreeMap<u32, Sum>| rows.values().fold(Sum::default(), |a, b| a.plus(*b));
            assert_eq!(sum(&kept).plus(rest.sum), sum(&all));
            assert!(all.iter().all(|(k, s)| kept.contains_key(k) || s.bytes <= rest.largest));
        }
    }
}

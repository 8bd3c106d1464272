//! The most common value of a list.

use std::collections::BTreeMap;

/// Returns the most common value and its count. If several are equally common, the largest.
pub(super) fn most_common(values: impl IntoIterator<Item = u64>) -> Option<(u64, usize)> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for v in values {
        *counts.entry(v).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(v, n)| (n, v))
}

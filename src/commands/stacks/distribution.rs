//! What is most common among numbers.

use std::collections::BTreeMap;

/// The most common value, with its count; the larger of equals.
pub(super) fn most_common(values: impl IntoIterator<Item = u64>) -> Option<(u64, usize)> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for v in values {
        *counts.entry(v).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(v, n)| (n, v))
}

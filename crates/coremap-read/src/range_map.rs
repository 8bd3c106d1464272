//! A map of disjoint address ranges. Segments, the base, regions and page fillings all use it.

use crate::addr::{Addr, AddrRange, sweep};

/// A value that covers a range of addresses.
pub trait Ranged {
    /// The range.
    fn range(&self) -> AddrRange;
}

/// Values over disjoint ranges, sorted by address.
#[derive(Clone, Debug)]
pub struct RangeMap<T> {
    items: Vec<T>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> RangeMap<T> {
        RangeMap { items: Vec::new() }
    }
}

impl<T: Ranged> RangeMap<T> {
    /// Wraps values that are already sorted and disjoint. `None` if they are not, or if one is empty.
    pub fn from_sorted(items: Vec<T>) -> Option<RangeMap<T>> {
        let whole = items.iter().all(|i| !i.range().is_empty());
        let apart = items.windows(2).all(|w| w[0].range().end <= w[1].range().start);
        (whole && apart).then_some(RangeMap { items })
    }

    /// Resolves overlapping values: at each address the one of highest rank wins. `place` makes the entry for a range
    /// that a value won.
    pub fn resolve<V, K: Ord + Clone>(
        values: &[V],
        rank: impl Fn(usize, &V) -> (AddrRange, K),
        place: impl Fn(AddrRange, &V) -> T,
    ) -> RangeMap<T> {
        let ranked: Vec<_> = values.iter().enumerate().map(|(i, v)| rank(i, v)).collect();
        let items = sweep(&ranked).into_iter().map(|(range, i)| place(range, &values[i])).collect();
        RangeMap { items }
    }

    /// Index of the first entry that ends after `addr`: the one that contains it, or the next above.
    pub fn index_at_or_above(&self, addr: Addr) -> usize {
        self.items.partition_point(|i| i.range().end <= addr)
    }

    /// The entry that contains `addr`.
    pub fn at(&self, addr: Addr) -> Option<&T> {
        self.items.get(self.index_at_or_above(addr)).filter(|i| i.range().contains(addr))
    }

    /// Entries that overlap `range`, by address.
    pub fn overlapping(&self, range: AddrRange) -> impl DoubleEndedIterator<Item = &T> + '_ {
        let from = self.index_at_or_above(range.start);
        let to = if range.is_empty() { from } else { self.items.partition_point(|i| i.range().start < range.end) };
        self.items.get(from..to).unwrap_or_default().iter()
    }

    /// Sum of all ranges in bytes.
    pub fn covered(&self) -> u64 {
        self.items.iter().map(|i| i.range().len()).fold(0, u64::saturating_add)
    }
}

impl<T> std::ops::Deref for RangeMap<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl Ranged for AddrRange {
    fn range(&self) -> AddrRange {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(a: u64, b: u64) -> AddrRange {
        AddrRange::new(Addr::new(a), Addr::new(b))
    }

    #[test]
    fn lookups() {
        assert!(RangeMap::from_sorted(vec![r(0, 5), r(4, 6)]).is_none());
        assert!(RangeMap::from_sorted(vec![r(5, 5)]).is_none());
        let Some(map) = RangeMap::from_sorted(vec![r(1, 5), r(5, 6), r(8, 9)]) else { panic!("sorted") };
        assert_eq!(map.at(Addr::new(4)), Some(&r(1, 5)));
        assert_eq!(map.at(Addr::new(6)), None);
        assert_eq!(map.overlapping(r(5, 9)).count(), 2);
        assert_eq!(map.overlapping(r(6, 8)).count(), 0);
        assert_eq!(map.covered(), 6);
    }
}

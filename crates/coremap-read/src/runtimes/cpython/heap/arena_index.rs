//! Finds the arena at an address. Called for every word of every object.

use crate::addr::{Addr, AddrRange};

/// Log2 of the granule size in bytes. No arena is smaller (ARENA_SIZE of 3.9), so a granule overlaps at most two
/// arenas.
const GRANULE_BITS: u32 = 18;

/// Maximum number of granules in the table, 4 bytes each. If arenas are farther apart, binary search is used.
const MAX_GRANULES: u64 = 1 << 22;

#[derive(Clone, Debug, Default)]
pub(super) struct ArenaIndex {
    /// Disjoint ranges, sorted by address.
    ranges: Vec<AddrRange>,
    /// Granule of the first arena.
    first: u64,
    /// By granule: index of the first arena that ends in it or later, plus 1. 0 if no arena overlaps it.
    table: Vec<u32>,
}

impl ArenaIndex {
    /// Creates the table. `ranges` must be disjoint and sorted.
    pub(super) fn new(ranges: Vec<AddrRange>) -> ArenaIndex {
        let granule = |at: Addr| at.get() >> GRANULE_BITS;
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return ArenaIndex::default() };
        let (first, last) = (granule(first.start), granule(last.end));
        let mut index = ArenaIndex { ranges, first, table: Vec::new() };
        if last - first < MAX_GRANULES {
            index.table = vec![0; (last - first + 1) as usize];
            for (i, range) in index.ranges.iter().enumerate().rev() {
                for at in granule(range.start)..=granule(range.end.saturating_sub(1)) {
                    if let Some(slot) = index.table.get_mut((at - first) as usize) {
                        *slot = i as u32 + 1;
                    }
                }
            }
        }
        index
    }

    /// Index of the arena that contains `at`.
    #[inline(always)]
    pub(super) fn find(&self, at: Addr) -> Option<usize> {
        let mut i = if self.table.is_empty() {
            self.ranges.partition_point(|range| range.end <= at)
        } else {
            let granule = (at.get() >> GRANULE_BITS).wrapping_sub(self.first);
            (*self.table.get(granule as usize)? as usize).checked_sub(1)?
        };
        if self.ranges.get(i)?.end <= at {
            i += 1;
        }
        self.ranges.get(i).filter(|range| range.contains(at)).map(|_| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_arena_that_holds_it() {
        let range = |start, len| AddrRange::sized(Addr::new(start), len);
        // Two in one granule, one that spans several, one far away.
        let near = vec![
            range(0x7f00_0001_0000, 0x4_0000),
            range(0x7f00_0005_0000, 0x10_0000),
            range(0x7f00_0200_0000, 0x10_0000),
        ];
        let far = [near.clone(), vec![range(0x7fff_0000_0000, 0x10_0000)]].concat();
        for ranges in [near, far] {
            let index = ArenaIndex::new(ranges.clone());
            for (i, range) in ranges.iter().enumerate() {
                assert_eq!(index.find(range.start), Some(i));
                assert_eq!(index.find(range.end.saturating_sub(1)), Some(i));
            }
            let outside = [0, 0x7f00_0000_ffff, 0x7f00_0015_0000, 0x7f00_01ff_ffff, 0x7f00_0210_0000, u64::MAX];
            assert!(outside.iter().all(|at| index.find(Addr::new(*at)).is_none()));
        }
        assert_eq!(ArenaIndex::default().find(Addr::new(1)), None);
    }
}

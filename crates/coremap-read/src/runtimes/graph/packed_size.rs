//! A table of byte counts in four to eight bytes each, as the largest possible value needs.

use rayon::prelude::*;

use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};

/// Byte counts, in two tables: the low four bytes and the rest.
pub(super) struct PackedSizes {
    low: Table<u32>,
    high: High,
}

/// The bytes above the low four of each value.
enum High {
    Nothing,
    One(Table<u8>),
    Two(Table<u16>),
    Four(Table<u32>),
}

impl PackedSizes {
    /// Creates a table of `len` zeros, for values up to `max`.
    pub(super) fn new(budget: &MemoryBudget, len: usize, max: u64) -> Result<PackedSizes, GraphError> {
        let low = budget.table(len)?;
        let high = match max {
            0..0x1_0000_0000 => High::Nothing,
            0x1_0000_0000..0x100_0000_0000 => High::One(budget.table(len)?),
            0x100_0000_0000..0x1_0000_0000_0000 => High::Two(budget.table(len)?),
            _ => High::Four(budget.table(len)?),
        };
        Ok(PackedSizes { low, high })
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> u64 {
        let low = self.low.get(at).map_or(0, |&n| u64::from(n));
        let high = match &self.high {
            High::Nothing => return low,
            High::One(high) => high.get(at).map_or(0, |&n| n.into()),
            High::Two(high) => high.get(at).map_or(0, |&n| n.into()),
            High::Four(high) => high.get(at).map_or(0, |&n| u64::from(n)),
        };
        low | high << 32
    }

    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, value: u64) {
        let Some(low) = self.low.get_mut(at) else { return };
        *low = value as u32;
        let high = value >> 32;
        match &mut self.high {
            High::Nothing => {}
            High::One(all) => put(all, at, high as u8),
            High::Two(all) => put(all, at, high as u16),
            High::Four(all) => put(all, at, high as u32),
        }
    }

    /// Fills the table on all threads, in shares of `share` entries. `fill` receives a share's index and its entries.
    pub(super) fn fill<R: Send>(
        &mut self,
        share: usize,
        fill: impl Fn(usize, &mut SizeShare<'_>) -> R + Sync,
    ) -> Vec<R> {
        let run = |(number, (low, high))| fill(number, &mut SizeShare { low, high });
        let low = self.low.par_chunks_mut(share);
        match &mut self.high {
            High::Nothing => low.map(|low| (low, HighShare::Nothing)).enumerate().map(run).collect(),
            High::One(high) => low.zip(high.par_chunks_mut(share).map(HighShare::One)).enumerate().map(run).collect(),
            High::Two(high) => low.zip(high.par_chunks_mut(share).map(HighShare::Two)).enumerate().map(run).collect(),
            High::Four(high) => low.zip(high.par_chunks_mut(share).map(HighShare::Four)).enumerate().map(run).collect(),
        }
    }
}

pub(super) struct SizeShare<'t> {
    low: &'t mut [u32],
    high: HighShare<'t>,
}

enum HighShare<'t> {
    Nothing,
    One(&'t mut [u8]),
    Two(&'t mut [u16]),
    Four(&'t mut [u32]),
}

impl SizeShare<'_> {
    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, value: u64) {
        put(self.low, at, value as u32);
        let high = value >> 32;
        match &mut self.high {
            HighShare::Nothing => {}
            HighShare::One(all) => put(all, at, high as u8),
            HighShare::Two(all) => put(all, at, high as u16),
            HighShare::Four(all) => put(all, at, high as u32),
        }
    }
}

#[inline(always)]
fn put<T>(some: &mut [T], at: usize, value: T) {
    if let Some(place) = some.get_mut(at) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_as_it_was_set() -> Result<(), GraphError> {
        for max in [1 << 31, 1 << 35, 1 << 45, u64::MAX] {
            let mut wide = PackedSizes::new(&MemoryBudget::unbounded(), 10, max)?;
            wide.fill(4, |share, some| (0..4).for_each(|at| some.set(at, max / (1 + 4 * share as u64 + at as u64))));
            for at in 0..10 {
                assert_eq!(wide.get(at), max / (1 + at as u64));
            }
            wide.set(3, max);
            assert_eq!((wide.get(3), wide.get(10)), (max, 0));
        }
        Ok(())
    }
}

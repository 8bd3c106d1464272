//! A table of optional numbers in one, two or four bytes each.

use rayon::prelude::*;

use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};

/// Numbers below a limit that is set at creation. All bits set means none.
pub(super) enum PackedIndices {
    One(Table<u8>),
    Two(Table<u16>),
    Four(Table<u32>),
}

impl PackedIndices {
    /// Width of an entry in bytes.
    pub(super) fn width(&self) -> u64 {
        match self {
            PackedIndices::One(_) => 1,
            PackedIndices::Two(_) => 2,
            PackedIndices::Four(_) => 4,
        }
    }

    /// Creates a table of `len` entries for numbers below `count`. All entries are none.
    pub(super) fn new(budget: &MemoryBudget, len: usize, count: usize) -> Result<PackedIndices, GraphError> {
        Ok(match count {
            0..0x100 => {
                let mut table = budget.table(len)?;
                table.fill(u8::MAX);
                PackedIndices::One(table)
            }
            0x100..0x1_0000 => {
                let mut table = budget.table(len)?;
                table.fill(u16::MAX);
                PackedIndices::Two(table)
            }
            _ => {
                let mut table = budget.table(len)?;
                table.fill(u32::MAX);
                PackedIndices::Four(table)
            }
        })
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Option<u32> {
        match self {
            PackedIndices::One(table) => table.get(at).filter(|&&n| n != u8::MAX).map(|&n| n.into()),
            PackedIndices::Two(table) => table.get(at).filter(|&&n| n != u16::MAX).map(|&n| n.into()),
            PackedIndices::Four(table) => table.get(at).copied().filter(|&n| n != u32::MAX),
        }
    }

    /// Fills the table on all threads, in shares of `share` entries. `fill` receives a share's index and its entries.
    pub(super) fn fill<R: Send>(
        &mut self,
        share: usize,
        fill: impl Fn(usize, &mut IndexShare<'_>) -> R + Sync,
    ) -> Vec<R> {
        let run = |(number, mut share): (usize, IndexShare<'_>)| fill(number, &mut share);
        match self {
            PackedIndices::One(table) => {
                table.par_chunks_mut(share).map(IndexShare::One).enumerate().map(run).collect()
            }
            PackedIndices::Two(table) => {
                table.par_chunks_mut(share).map(IndexShare::Two).enumerate().map(run).collect()
            }
            PackedIndices::Four(table) => {
                table.par_chunks_mut(share).map(IndexShare::Four).enumerate().map(run).collect()
            }
        }
    }
}

/// A range of entries.
pub(super) enum IndexShare<'t> {
    One(&'t mut [u8]),
    Two(&'t mut [u16]),
    Four(&'t mut [u32]),
}

impl IndexShare<'_> {
    pub(super) fn skip(&mut self, first: usize) -> IndexShare<'_> {
        match self {
            IndexShare::One(some) => IndexShare::One(some.get_mut(first..).unwrap_or_default()),
            IndexShare::Two(some) => IndexShare::Two(some.get_mut(first..).unwrap_or_default()),
            IndexShare::Four(some) => IndexShare::Four(some.get_mut(first..).unwrap_or_default()),
        }
    }

    /// Sets the entries, from the first on, to the entries of `from` at the indices `places`.
    pub(super) fn gather(&mut self, from: &PackedIndices, places: impl Iterator<Item = u32>) {
        // Keep the loop body cheap, so that many cache misses overlap.
        match (self, from) {
            (IndexShare::One(some), PackedIndices::One(table)) => copy(some, table, places),
            (IndexShare::Two(some), PackedIndices::Two(table)) => copy(some, table, places),
            (IndexShare::Four(some), PackedIndices::Four(table)) => copy(some, table, places),
            (some, table) => (0..).zip(places).for_each(|(at, place)| {
                if let Some(number) = table.get(place as usize) {
                    some.set(at, number);
                }
            }),
        }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, at: usize, number: u32) {
        match self {
            IndexShare::One(some) => put(some, at, number as u8),
            IndexShare::Two(some) => put(some, at, number as u16),
            IndexShare::Four(some) => put(some, at, number),
        }
    }
}

#[inline(always)]
fn put<T>(some: &mut [T], at: usize, value: T) {
    if let Some(place) = some.get_mut(at) {
        *place = value;
    }
}

fn copy<T: Copy>(some: &mut [T], table: &[T], places: impl Iterator<Item = u32>) {
    for (to, place) in some.iter_mut().zip(places) {
        if let Some(&value) = table.get(place as usize) {
            *to = value;
        }
    }
}

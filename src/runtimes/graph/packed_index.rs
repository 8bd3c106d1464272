//! A table of optional numbers in one, two or four bytes each.

use rayon::prelude::*;

use crate::runtimes::graph::budget::{GraphError, Room, Table};

/// Numbers below a limit that is set at creation. All bits set means none.
pub(super) enum Narrow {
    One(Table<u8>),
    Two(Table<u16>),
    Four(Table<u32>),
}

impl Narrow {
    /// Width of an entry in bytes.
    pub(super) fn width(&self) -> u64 {
        match self {
            Narrow::One(_) => 1,
            Narrow::Two(_) => 2,
            Narrow::Four(_) => 4,
        }
    }

    /// Creates a table of `len` entries for numbers below `count`. All entries are none.
    pub(super) fn new(room: &Room, len: usize, count: usize) -> Result<Narrow, GraphError> {
        Ok(match count {
            0..0x100 => {
                let mut table = room.table(len)?;
                table.fill(u8::MAX);
                Narrow::One(table)
            }
            0x100..0x1_0000 => {
                let mut table = room.table(len)?;
                table.fill(u16::MAX);
                Narrow::Two(table)
            }
            _ => {
                let mut table = room.table(len)?;
                table.fill(u32::MAX);
                Narrow::Four(table)
            }
        })
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Option<u32> {
        match self {
            Narrow::One(table) => table.get(at).filter(|&&n| n != u8::MAX).map(|&n| n.into()),
            Narrow::Two(table) => table.get(at).filter(|&&n| n != u16::MAX).map(|&n| n.into()),
            Narrow::Four(table) => table.get(at).copied().filter(|&n| n != u32::MAX),
        }
    }

    /// Fills the table on all threads, in shares of `share` entries. `fill` receives a share's index and its entries.
    pub(super) fn fill<R: Send>(&mut self, share: usize, fill: impl Fn(usize, &mut Share<'_>) -> R + Sync) -> Vec<R> {
        let run = |(number, mut share): (usize, Share<'_>)| fill(number, &mut share);
        match self {
            Narrow::One(table) => table.par_chunks_mut(share).map(Share::One).enumerate().map(run).collect(),
            Narrow::Two(table) => table.par_chunks_mut(share).map(Share::Two).enumerate().map(run).collect(),
            Narrow::Four(table) => table.par_chunks_mut(share).map(Share::Four).enumerate().map(run).collect(),
        }
    }
}

/// A range of entries.
pub(super) enum Share<'t> {
    One(&'t mut [u8]),
    Two(&'t mut [u16]),
    Four(&'t mut [u32]),
}

impl Share<'_> {
    pub(super) fn skip(&mut self, first: usize) -> Share<'_> {
        match self {
            Share::One(some) => Share::One(some.get_mut(first..).unwrap_or_default()),
            Share::Two(some) => Share::Two(some.get_mut(first..).unwrap_or_default()),
            Share::Four(some) => Share::Four(some.get_mut(first..).unwrap_or_default()),
        }
    }

    /// Sets the entries, from the first on, to the entries of `from` at the indices `places`.
    pub(super) fn pick(&mut self, from: &Narrow, places: impl Iterator<Item = u32>) {
        // Keep the loop body cheap, so that many cache misses overlap.
        match (self, from) {
            (Share::One(some), Narrow::One(table)) => copy(some, table, places),
            (Share::Two(some), Narrow::Two(table)) => copy(some, table, places),
            (Share::Four(some), Narrow::Four(table)) => copy(some, table, places),
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
            Share::One(some) => put(some, at, number as u8),
            Share::Two(some) => put(some, at, number as u16),
            Share::Four(some) => put(some, at, number),
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

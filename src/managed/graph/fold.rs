//! What dominators need no search for.
//!
//! Whoever is referred to by one object alone is dominated by it: that is most of a heap, and it
//! is seen without following anything. A search is left for what several refer to, and for what
//! stands between these and the roots.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::managed::graph::Source;
use crate::managed::graph::bits::Bits;
use crate::managed::graph::rows::{Rows, STRAY};

/// Nothing that lives refers to it.
pub(super) const NONE: u32 = u32::MAX;
/// Several do.
pub(super) const SEVERAL: u32 = u32::MAX - 1;

/// For each number the one that alone refers to it, [`NONE`] or [`SEVERAL`]. What holds itself says nothing.
pub(super) fn only_holders(rows: &Rows, live: &Bits, sources: &[Source], base: u32, len: usize) -> Vec<AtomicU32> {
    let mut only: Vec<AtomicU32> = (0..len).map(|_| AtomicU32::new(NONE)).collect();
    // Whichever thread writes last: the second pass sees who differs from that one. So no write
    // waits for what was there before.
    rows.each(|id, targets| {
        let number = base + id;
        if !targets.is_empty() && live.has(number) {
            for &to in targets.iter().filter(|&&to| to != number) {
                if let Some(only) = only.get(to as usize) {
                    only.store(number, Ordering::Relaxed);
                }
            }
        }
    });
    rows.each(|id, targets| {
        let number = base + id;
        if !targets.is_empty() && live.has(number) {
            for &to in targets.iter().filter(|&&to| to != number) {
                if let Some(only) = only.get(to as usize)
                    && only.load(Ordering::Relaxed) != number
                {
                    only.store(SEVERAL, Ordering::Relaxed);
                }
            }
        }
    });
    for source in sources {
        if let Some(only) = only.get_mut(source.number as usize) {
            *only.get_mut() = 0;
        }
        for &to in &source.entries {
            let Some(only) = only.get_mut(to as usize).map(AtomicU32::get_mut) else { continue };
            *only = if *only == NONE || *only == source.number { source.number } else { SEVERAL };
        }
    }
    only
}

/// What is left to search: all that several refer to.
pub(super) struct Left {
    /// These.
    pub(super) several: Bits,
    /// These, and each that one of them is reached through.
    pub(super) all: Bits,
}

impl Left {
    /// Find it.
    pub(super) fn find(rows: &Rows, live: &Bits, only: &[AtomicU32], base: u32) -> Left {
        let of = |number: u32| only.get(number as usize).map_or(NONE, |only| only.load(Ordering::Relaxed));
        let several = Bits::of(only.len() as u32, |number| of(number) == SEVERAL);
        let all = several.copied();
        if several.count() > 0 {
            rows.each(|id, targets| {
                let number = base + id;
                let leads = |&to: &u32| to != STRAY && to != number && several.has(to);
                if targets.iter().any(leads) && live.has(number) {
                    let mut at = number;
                    // Whoever finds one set leaves the rest to who set it.
                    while at >= base && at < SEVERAL && all.set(at) {
                        at = of(at);
                    }
                }
            });
        }
        Left { several, all }
    }
}

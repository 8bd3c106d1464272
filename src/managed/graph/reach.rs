//! What roots lead to, nearest first.
//!
//! A search level by level waits for memory once for many objects: those that come next are
//! known, and are looked up together. One that goes deep first would wait at each.

use std::hint::black_box;

use crate::managed::graph::bits::Bits;
use crate::managed::graph::deep::Known;
use crate::managed::graph::rows::STRAY;

/// Objects whose references are looked up together.
const AHEAD: usize = 64;

/// The objects that live.
pub(super) struct Reached {
    /// Their numbers, and those of the kinds of roots, nearest to the roots first.
    pub(super) order: Vec<u32>,
    /// Which numbers these are.
    pub(super) live: Bits,
}

/// Search from all roots.
pub(super) fn reach(known: Known<'_>) -> Reached {
    let mut out = Reached { order: Vec::new(), live: Bits::new(known.len as usize) };
    each_once(known, &mut out.live, |number, _| out.order.push(number));
    out.order.shrink_to_fit();
    out
}

/// Visit all numbers that roots lead to, once each, with the one that it was come to from; that one
/// comes first. Kinds of roots come from 0. `met` are those that were visited, none before.
fn each_once(known: Known<'_>, met: &mut Bits, mut visit: impl FnMut(u32, u32)) {
    let Known { rows, holders, sources, base, .. } = known;
    // Only what has references has something to be looked up.
    let mut next: Vec<u32> = Vec::new();
    let mut level: Vec<u32> = Vec::new();
    let mut meet = |met: &mut Bits, next: &mut Vec<u32>, number: u32, from: u32| {
        if met.set_alone(number) {
            visit(number, from);
            if holders.has(number) {
                next.push(number);
            }
        }
    };
    for source in sources {
        meet(met, &mut next, source.number, 0);
    }
    for source in sources {
        for &number in &source.entries {
            meet(met, &mut next, number, source.number);
        }
    }
    while !next.is_empty() {
        std::mem::swap(&mut level, &mut next);
        next.clear();
        for batch in level.chunks(AHEAD) {
            let first = |&number: &u32| rows.of(number - base).first().copied().unwrap_or(0);
            black_box(batch.iter().map(first).fold(0, |sum, first| sum ^ first));
            for &number in batch {
                for &to in rows.of(number - base).iter().filter(|&&to| to != STRAY) {
                    meet(met, &mut next, to, number);
                }
            }
        }
    }
}

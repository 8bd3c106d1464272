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
    /// By place in the order, whether what was come to is the first that was so from where it was.
    pub(super) firsts: Bits,
    /// Numbers that others were come to from. With the two the shortest ways are two bits an object.
    pub(super) ways_on: Bits,
}

/// Search from all roots.
pub(super) fn reach(known: Known<'_>) -> Reached {
    let Known { rows, holders, sources, base, len } = known;
    let bits = || Bits::new(len as usize);
    let mut out = Reached { order: Vec::new(), live: bits(), firsts: bits(), ways_on: bits() };
    let mut last = None;
    let mut meet = |out: &mut Reached, next: &mut Vec<u32>, number: u32, from: u32| {
        if out.live.set_alone(number) {
            if last != Some(from) {
                last = Some(from);
                out.firsts.set_alone(out.order.len() as u32);
                out.ways_on.set_alone(from);
            }
            out.order.push(number);
            if holders.has(number) {
                next.push(number);
            }
        }
    };
    // Only what has references has something to be looked up.
    let mut next: Vec<u32> = Vec::new();
    let mut level: Vec<u32> = Vec::new();
    for source in sources {
        meet(&mut out, &mut next, source.number, 0);
    }
    for source in sources {
        for &number in &source.entries {
            meet(&mut out, &mut next, number, source.number);
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
                    meet(&mut out, &mut next, to, number);
                }
            }
        }
    }
    out.order.shrink_to_fit();
    out
}

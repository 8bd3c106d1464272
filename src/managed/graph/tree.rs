//! Shortest ways from the roots to all live objects at once.

use std::hint::black_box;
use std::ops::Range;

use rayon::prelude::*;

use crate::managed::graph::Live;
use crate::managed::{Link, ObjectReader};

/// For each number, the one that a shortest way from the roots comes from.
pub struct Tree<'l> {
    parents: Vec<u32>,
    order: &'l [u32],
}

/// Objects that are looked up before the first of them is read.
const AHEAD: usize = 32;

/// Objects whose references are read by a thread at once, and by all of them before what they hold is visited.
const PART: usize = 1 << 10;
const BATCH: usize = 1 << 16;

/// The parent of what was not come to.
const NONE: u32 = u32::MAX;

impl<'l> Tree<'l> {
    /// The ways by which a search level by level came to all that lives. `visit` gets each number once, with
    /// the one it was come to from and how that holds it; parents come first.
    pub fn shortest(live: &'l Live<'_>, mut visit: impl FnMut(u32, u32, Option<Link>)) -> Tree<'l> {
        let order = live.reached.order.as_slice();
        let mut tree = Tree { parents: vec![NONE; live.len()], order };
        let mut meet = |from: u32, to: &[u32], links: &mut dyn Iterator<Item = Link>| {
            for &number in to {
                if let Some(parent) = tree.parents.get_mut(number as usize) {
                    *parent = from;
                }
                visit(number, from, links.next());
            }
        };
        let mut place = 0;
        let mut parents = order.iter().copied().filter(|&n| live.reached.ways_on.has(n)).peekable();
        // How roots hold is no question.
        for from in std::iter::once(0).chain(std::iter::from_fn(|| parents.next_if(|&n| n < live.base()))) {
            let to = group(live, &mut place);
            meet(from, order.get(to).unwrap_or_default(), &mut std::iter::empty());
        }
        let mut batch: Vec<(u32, Range<usize>)> = Vec::new();
        while parents.peek().is_some() {
            batch.clear();
            batch.extend(parents.by_ref().take(BATCH).map(|from| (from, group(live, &mut place))));
            let links = |part: &[(u32, Range<usize>)]| links(live, part);
            let links: Vec<Vec<Link>> = batch.par_chunks(PART).map(links).collect();
            for (part, links) in batch.chunks(PART).zip(links) {
                let mut links = links.into_iter();
                for (from, to) in part {
                    meet(*from, order.get(to.clone()).unwrap_or_default(), &mut links);
                }
            }
        }
        tree
    }

    /// Numbers of kinds of roots, then of objects, nearest to the roots first.
    pub fn order(&self) -> &'l [u32] {
        self.order
    }

    /// The shortest way to an object: from the number of its kind of root on.
    pub fn way(&self, number: u32) -> Vec<u32> {
        let mut out = vec![number];
        let mut at = number;
        while let Some(&up) = self.parents.get(at as usize).filter(|&&up| up != 0 && up != NONE) {
            out.push(up);
            at = up;
        }
        out.reverse();
        out
    }
}

/// Places in the order of what was come to from one, the next that anything was come to from.
fn group(live: &Live<'_>, place: &mut usize) -> Range<usize> {
    let (start, len) = (*place, live.reached.order.len());
    *place = (start + 1..len).find(|&at| live.reached.firsts.has(at as u32)).unwrap_or(len);
    start..*place
}

/// How each of some objects holds what was come to from it, in the order of that.
fn links(live: &Live<'_>, part: &[(u32, Range<usize>)]) -> Vec<Link> {
    let mut reader = live.graph.reader();
    let mut out = Vec::with_capacity(part.len());
    let mut addresses: Vec<u64> = Vec::with_capacity(AHEAD);
    for some in part.chunks(AHEAD) {
        addresses.clear();
        addresses.extend(some.iter().map(|(from, _)| live.object(*from).map_or(0, |at| at.get())));
        // Objects lie anywhere: asked for together, they come together.
        black_box(addresses.iter().fold(0, |sum, &addr| sum ^ live.graph.first_word(addr)));
        for ((_, to), &addr) in some.iter().zip(&addresses) {
            let to = live.reached.order.get(to.clone()).unwrap_or_default();
            one(live, &mut *reader, addr, to, &mut out);
        }
    }
    out
}

/// How the object at `addr` holds those of `to`, which are in the order of its first references to them.
fn one(live: &Live<'_>, reader: &mut dyn ObjectReader, addr: u64, to: &[u32], out: &mut Vec<Link>) {
    let all = out.len() + to.len();
    let mut rest = to.iter().copied().peekable();
    reader.each(addr, |link, value| {
        let is = |next: u32| live.ids.find(live.graph.space, value).is_some_and(|id| live.base() + id == next);
        if rest.next_if(|&next| is(next)).is_some() {
            out.push(link);
        }
        rest.peek().is_some()
    });
    // They were read from there: only memory that changes could have others now.
    out.resize(all, Link::Field(0));
}

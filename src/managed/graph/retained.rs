//! What each object keeps: the bytes that would be freed with it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Deref;
use std::sync::Arc;

use rayon::prelude::*;

use crate::managed::graph::above::{Known, types};
use crate::managed::graph::live::{Found, Numbered};
use crate::managed::graph::rows::CHUNK;
use crate::managed::graph::{Graph, Live, TooMany};
use crate::managed::{Root, Tally, TypeIndex};

/// The kind of what is no object.
const NO_KIND: u32 = u32::MAX;

/// Live objects, with what each dominates.
pub struct Retained<'g> {
    /// The objects.
    pub live: Live<'g>,
    sums: Arc<Sums>,
}

impl Deref for Retained<'_> {
    type Target = Sums;

    fn deref(&self) -> &Sums {
        &self.sums
    }
}

/// What each live object dominates.
pub struct Sums {
    /// By number.
    idoms: Vec<u32>,
    retained: Vec<u64>,
    kinds: Vec<u32>,
    /// All of them.
    pub total: Tally,
    /// References that lead to no object.
    pub strays: u64,
}

/// All that was found of a heap, without the heap.
#[derive(Clone)]
pub(crate) struct Kept {
    numbered: Arc<Numbered>,
    sums: Arc<Sums>,
}

/// The objects of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSum {
    /// The type.
    pub kind: TypeIndex,
    /// All of them.
    pub own: Tally,
    /// What they keep; an object that another one of the type dominates is in
    /// what that one keeps.
    pub retained: u64,
}

impl<'g> Retained<'g> {
    /// Find what all objects keep that live by `roots`.
    ///
    /// # Errors
    /// [`TooMany`]
    pub fn find(graph: Graph<'g>, roots: &[Root]) -> Result<Retained<'g>, TooMany> {
        let (live, Found { idoms, strays }) = Live::find(graph, roots)?;
        let (mut retained, kinds, total) = sizes(&live);
        // Whatever dominates an object is nearer to the roots.
        for &number in live.reached.order.iter().rev() {
            let own = retained.get(number as usize).copied().unwrap_or(0);
            let up = idoms.get(number as usize).and_then(|&up| retained.get_mut(up as usize));
            if let Some(up) = up {
                *up = up.saturating_add(own);
            }
        }
        Ok(Retained { live, sums: Arc::new(Sums { idoms, retained, kinds, total, strays }) })
    }

    /// What was found, for [`Retained::again`].
    pub(crate) fn kept(&self) -> Kept {
        Kept { numbered: Arc::clone(&self.live.numbered), sums: Arc::clone(&self.sums) }
    }

    /// The same as was found before, where `graph` is of the same heap.
    pub(crate) fn again(graph: Graph<'g>, kept: Kept) -> Retained<'g> {
        let Kept { numbered, sums } = kept;
        Retained { live: Live { graph, numbered }, sums }
    }

    /// The number of what dominates `number` and nothing else between them.
    pub fn dominator(&self, number: u32) -> u32 {
        self.idoms.get(number as usize).copied().unwrap_or(0)
    }

    /// Bytes that go with it, its own among them.
    pub fn bytes(&self, number: u32) -> u64 {
        self.retained.get(number as usize).copied().unwrap_or(0)
    }

    /// The type of an object.
    pub fn kind(&self, number: u32) -> Option<TypeIndex> {
        self.kinds.get(number as usize).copied().filter(|&k| k != NO_KIND).map(TypeIndex)
    }

    /// Types of live objects.
    pub fn kinds(&self) -> impl Iterator<Item = TypeIndex> + use<> {
        let mut seen: Vec<bool> = Vec::new();
        for &kind in self.kinds.iter().filter(|&&k| k != NO_KIND) {
            let at = kind as usize;
            if seen.len() <= at {
                seen.resize(at + 1, false);
            }
            if let Some(seen) = seen.get_mut(at) {
                *seen = true;
            }
        }
        (0..).zip(seen).filter(|(_, seen)| *seen).map(|(kind, _)| TypeIndex(kind))
    }

    /// The `most` numbers of objects that keep most, of those that `pick` takes.
    pub fn top(&self, most: usize, pick: impl Fn(u32, TypeIndex) -> bool) -> Vec<u32> {
        let mut heap = BinaryHeap::new();
        for number in 1..self.live.len() as u32 {
            let bytes = self.bytes(number);
            let full = heap.len() >= most;
            if full && heap.peek().is_none_or(|&Reverse((least, _))| bytes <= least) {
                continue;
            }
            if self.kind(number).is_some_and(|kind| pick(number, kind)) {
                if full {
                    heap.pop();
                }
                heap.push(Reverse((bytes, Reverse(number))));
            }
        }
        let mut out: Vec<_> = heap.into_iter().map(|Reverse((bytes, Reverse(number)))| (bytes, number)).collect();
        out.sort_unstable_by_key(|&(bytes, number)| (Reverse(bytes), number));
        out.into_iter().map(|(_, number)| number).collect()
    }

    /// Of all objects of some types, those that none of the others dominates.
    pub fn outermost(&self, pick: impl Fn(TypeIndex) -> bool) -> Vec<bool> {
        let len = self.live.len();
        let (mut covered, mut out) = (vec![false; len], vec![false; len]);
        // Dominators come first.
        for &number in &self.live.reached.order {
            let (at, up) = (number as usize, self.dominator(number) as usize);
            let above = covered.get(up) == Some(&true) || out.get(up) == Some(&true);
            let picked = !above && self.kind(number).is_some_and(&pick);
            if let (Some(covered), Some(out)) = (covered.get_mut(at), out.get_mut(at)) {
                (*covered, *out) = (above, picked);
            }
        }
        out
    }

    /// What `within` dominates, and itself, by type; all live objects for 0.
    pub fn types(&self, within: u32) -> Vec<TypeSum> {
        let known = |number| Known { up: self.dominator(number), bytes: self.bytes(number), kind: self.kind(number) };
        let found = types(&self.live.reached.order, self.live.len(), within, known);
        found.unwrap_or_else(|| self.types_by_walk(within))
    }

    /// The same by a walk of all of the tree, which waits for memory at each object.
    fn types_by_walk(&self, within: u32) -> Vec<TypeSum> {
        let len = self.live.len();
        let (mut first, mut next) = (vec![0_u32; len], vec![0_u32; len]);
        for &number in self.live.reached.order.iter().rev() {
            if let Some(first) = first.get_mut(self.dominator(number) as usize)
                && let Some(next) = next.get_mut(number as usize)
            {
                *next = std::mem::replace(first, number);
            }
        }
        let mut sums: Vec<(Tally, u64, u64)> = Vec::new();
        let mut at = within;
        loop {
            self.enter(at, within, &mut sums);
            // Down, else to the next, else up to where there is a next.
            let child = first.get(at as usize).copied().unwrap_or(0);
            if child != 0 {
                at = child;
                continue;
            }
            loop {
                self.leave(at, &mut sums);
                if at == within {
                    let rows = (0..).zip(sums).filter(|(_, s)| s.0.count > 0);
                    return rows.map(|(k, (own, retained, _))| TypeSum { kind: TypeIndex(k), own, retained }).collect();
                }
                let sibling = next.get(at as usize).copied().unwrap_or(0);
                if sibling != 0 {
                    at = sibling;
                    break;
                }
                at = self.dominator(at);
            }
        }
    }

    /// Count an object. `sums` are by type: objects, bytes retained, and how many of
    /// the type dominate what is looked at.
    fn enter(&self, at: u32, within: u32, sums: &mut Vec<(Tally, u64, u64)>) {
        let bytes = self.bytes(at);
        // Its own bytes are what is left when all that it dominates is taken off.
        if at != within
            && let Some((own, ..)) = self.sum_of(self.dominator(at), sums)
        {
            own.size = own.size.saturating_sub(bytes);
        }
        let Some(TypeIndex(kind)) = self.kind(at) else { return };
        if sums.len() <= kind as usize {
            sums.resize(kind as usize + 1, Default::default());
        }
        let Some((own, retained, open)) = sums.get_mut(kind as usize) else { return };
        own.add(1, bytes);
        if *open == 0 {
            *retained = retained.saturating_add(bytes);
        }
        *open += 1;
    }

    fn leave(&self, at: u32, sums: &mut [(Tally, u64, u64)]) {
        if let Some((_, _, open)) = self.sum_of(at, sums) {
            *open -= 1;
        }
    }

    fn sum_of<'s>(&self, number: u32, sums: &'s mut [(Tally, u64, u64)]) -> Option<&'s mut (Tally, u64, u64)> {
        sums.get_mut(self.kind(number)?.0 as usize)
    }
}

/// By number, sizes and types of all live objects; and their sum.
fn sizes(live: &Live<'_>) -> (Vec<u64>, Vec<u32>, Tally) {
    let (mut sizes, mut kinds) = (vec![0; live.len()], vec![NO_KIND; live.len()]);
    let base = live.base() as usize;
    let of_chunk = |(chunk, (sizes, kinds)): (usize, (&mut [u64], &mut [u32]))| {
        let mut reader = live.graph.reader();
        let mut tally = Tally::default();
        let first = base + chunk * CHUNK as usize;
        live.each(chunk as u32, |number, addr| {
            let at = number as usize - first;
            if live.reached.live.has(number)
                && let (Some(size), Some(kind)) = (sizes.get_mut(at), kinds.get_mut(at))
                && let Some(node) = reader.node(addr)
            {
                (*size, *kind) = (node.counted_size, node.kind.0);
                tally.add(1, node.counted_size);
            }
        });
        tally
    };
    let sum = |mut a: Tally, b: Tally| {
        a.add(b.count, b.size);
        a
    };
    let of_sizes = sizes.get_mut(base..).unwrap_or_default().par_chunks_mut(CHUNK as usize);
    let of_kinds = kinds.get_mut(base..).unwrap_or_default().par_chunks_mut(CHUNK as usize);
    let total = of_sizes.zip(of_kinds).enumerate().map(of_chunk).reduce(Tally::default, sum);
    (sizes, kinds, total)
}

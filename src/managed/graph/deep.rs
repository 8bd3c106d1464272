//! Who dominates each object: by a search that goes deep first, where more than one refers to
//! an object, and without any for all others ([`super::fold`]).

use crate::managed::graph::bits::Bits;
use crate::managed::graph::dominators::dominators;
use crate::managed::graph::fold::{Left, only_holders};
use crate::managed::graph::reach::Reached;
use crate::managed::graph::rows::{Rows, STRAY};
use crate::managed::graph::{Source, TooMany};

/// For each of some numbers, those that refer to it and are not what the search came from.
pub(super) struct Edges {
    /// Where those of each number end in `from`; those of the next begin there.
    ends: Vec<u32>,
    from: Vec<u32>,
}

impl Edges {
    /// As they are.
    pub(super) fn raw(ends: Vec<u32>, from: Vec<u32>) -> Edges {
        Edges { ends, from }
    }

    /// From pairs of numbers, and how many numbers there are.
    #[cfg(test)]
    pub(super) fn of(len: usize, pairs: &[(u32, u32)]) -> Edges {
        let (mut ends, mut from) = (Vec::new(), Vec::new());
        for to in 0..len as u32 {
            from.extend(pairs.iter().filter(|p| p.1 == to).map(|p| p.0));
            ends.push(from.len() as u32);
        }
        Edges { ends, from }
    }

    /// The numbers that have a reference to this one.
    #[inline(always)]
    pub(super) fn to(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&e| e as usize);
        let end = self.ends.get(at).map_or(0, |&e| e as usize);
        self.from.get(start..end).unwrap_or_default()
    }
}

/// What objects refer to, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    pub(super) rows: &'k Rows,
    /// Numbers that refer to any.
    pub(super) holders: &'k Bits,
    pub(super) sources: &'k [Source],
    /// The number of the first object.
    pub(super) base: u32,
    /// Numbers given.
    pub(super) len: u32,
}

/// For each number that lives its immediate dominator; any for others.
///
/// # Errors
/// [`TooMany`]
pub(super) fn idoms(known: Known<'_>, reached: &Reached) -> Result<Vec<u32>, TooMany> {
    let Known { rows, sources, base, len, .. } = known;
    let only = only_holders(rows, &reached.live, sources, base, len as usize);
    let left = Left::find(rows, &reached.live, &only, base);
    let mut out: Vec<u32> = only.into_iter().map(|only| only.into_inner()).collect();
    if left.several.count() == 0 {
        return Ok(out);
    }
    let search = Search::run(known, &left);
    let edges = search.edges(known, &left)?;
    let Search { vertices, parents, numbers, .. } = search;
    drop(numbers);
    let found = dominators(parents, &edges);
    let name = |vertex: u32| vertices.get(vertex as usize).copied().unwrap_or(0);
    for (&number, &up) in vertices.iter().zip(&found) {
        if left.several.has(number)
            && let Some(out) = out.get_mut(number as usize)
        {
            *out = name(up);
        }
    }
    Ok(out)
}

/// A search that goes deep first. It numbers what it comes to: the vertices.
struct Search {
    /// By vertex, its number; vertex 0 stands for all roots.
    vertices: Vec<u32>,
    /// By vertex, the one it was come to from.
    parents: Vec<u32>,
    /// By number, the vertex.
    numbers: Vec<u32>,
    /// What was not come to yet.
    left: Bits,
}

/// An object that has more to be looked at, from a place among its references on.
struct Frame {
    number: u32,
    vertex: u32,
    place: usize,
}

impl Search {
    fn run(known: Known<'_>, left: &Left) -> Search {
        let most = left.all.count() as usize + known.sources.len() + 1;
        let mut search = Search {
            vertices: Vec::with_capacity(most),
            parents: Vec::with_capacity(most),
            numbers: vec![0; known.len as usize],
            left: left.all.copied(),
        };
        search.number(0, 0);
        let mut stack = Vec::new();
        for source in known.sources {
            let from = search.number(source.number, 0);
            for &number in &source.entries {
                if search.left.take(number) {
                    let vertex = search.number(number, from);
                    stack.push(Frame { number, vertex, place: 0 });
                    search.descend(known, &mut stack);
                }
            }
        }
        search
    }

    /// Give the next vertex.
    fn number(&mut self, number: u32, parent: u32) -> u32 {
        let vertex = self.vertices.len() as u32;
        self.vertices.push(number);
        self.parents.push(parent);
        if let Some(own) = self.numbers.get_mut(number as usize) {
            *own = vertex;
        }
        vertex
    }

    /// Go through all that what is on the stack leads to. An object stays on the stack only while it has
    /// more than one that was not come to: lists of any length need none of it, where they end in the next node.
    fn descend(&mut self, known: Known<'_>, stack: &mut Vec<Frame>) {
        while let Some(mut at) = stack.pop() {
            loop {
                let (mut child, mut more) = (None, None);
                let row = known.rows.of(at.number - known.base);
                for (place, &to) in row.iter().enumerate().skip(at.place) {
                    if !self.left.has(to) {
                        continue;
                    }
                    match child {
                        None => child = Some(to),
                        Some(first) if first == to => {}
                        Some(_) => {
                            more = Some(place);
                            break;
                        }
                    }
                }
                let Some(number) = child else { break };
                self.left.take(number);
                let vertex = self.number(number, at.vertex);
                if let Some(place) = more {
                    stack.push(Frame { place, ..at });
                }
                if !known.holders.has(number) {
                    break;
                }
                at = Frame { number, vertex, place: 0 };
            }
        }
    }

    /// Who refers to what, among what was come to; but for the tree of the search.
    fn edges(&self, known: Known<'_>, left: &Left) -> Result<Edges, TooMany> {
        let mut ends = vec![0_u32; self.vertices.len()];
        let mut count = 0_u64;
        self.each(known, left, |_, to| {
            if let Some(end) = ends.get_mut(to as usize) {
                *end = end.wrapping_add(1);
                count += 1;
            }
        });
        let sum = u32::try_from(count).map_err(|_| TooMany)?;
        let mut start = 0;
        for end in &mut ends {
            let count = std::mem::replace(end, start);
            start += count;
        }
        let mut from = vec![0_u32; sum as usize];
        // Where each row begins moves on to its end.
        self.each(known, left, |v, to| {
            if let Some(end) = ends.get_mut(to as usize) {
                if let Some(place) = from.get_mut(*end as usize) {
                    *place = v;
                }
                *end += 1;
            }
        });
        Ok(Edges::raw(ends, from))
    }

    fn each(&self, known: Known<'_>, left: &Left, mut visit: impl FnMut(u32, u32)) {
        let parent = |v: u32| self.parents.get(v as usize).copied().unwrap_or(0);
        let vertex = |number: u32| self.numbers.get(number as usize).copied().unwrap_or(0);
        let mut of = |number: u32, targets: &[u32]| {
            let mut own = None;
            for &to in targets.iter().filter(|&&to| to != STRAY && to != number && left.several.has(to)) {
                let (v, to) = (*own.get_or_insert_with(|| vertex(number)), vertex(to));
                // The tree is known.
                if parent(to) != v {
                    visit(v, to);
                }
            }
        };
        for id in 0..known.len - known.base {
            let number = known.base + id;
            if left.all.has(number) && known.holders.has(number) {
                of(number, known.rows.of(id));
            }
        }
        for source in known.sources {
            of(source.number, &source.entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::RootKind;
    use crate::managed::graph::reach::reach;
    use crate::managed::graph::simple::{naive, reached};
    use proptest::prelude::*;

    /// Kinds of roots, as many as there are numbers before the first object.
    const BASE: u32 = 3;

    fn sources(entries: [Vec<u32>; 2]) -> Vec<Source> {
        let of = |(number, entries): (u32, Vec<u32>)| {
            let (kind, roots) = (RootKind::Stack, entries.len() as u64);
            Source { kind, number, roots, static_arrays: false, entries }
        };
        (1..).zip(entries).map(of).collect()
    }

    /// Hold what is found of lists of numbers by object against what the words mean.
    fn agree(lists: &[Vec<u32>], entries: [Vec<u32>; 2]) {
        let len = BASE + lists.len() as u32;
        let mut edges: Vec<(u32, u32)> = vec![(0, 1), (0, 2)];
        for (from, list) in (1..).zip(entries.iter().chain(lists)) {
            edges.extend(list.iter().filter(|&&to| to != STRAY).map(|&to| (from, to)));
        }
        let (rows, sources) = (Rows::of_lists(lists), sources(entries));
        let holders = Bits::of(len, |n| n >= BASE && !lists[(n - BASE) as usize].is_empty());
        let known = Known { rows: &rows, holders: &holders, sources: &sources, base: BASE, len };
        let found = reach(known);
        let lives = reached(len as usize, &edges, u32::MAX);
        let mut order = found.order.clone();
        order.sort_unstable();
        let expected: Vec<u32> = (1..len).filter(|&n| lives[n as usize]).collect();
        assert_eq!(order, expected);
        let Ok(idoms) = idoms(known, &found) else { panic!("too many") };
        let edges: Vec<(u32, u32)> = edges.into_iter().filter(|e| lives[e.0 as usize]).collect();
        let simple = naive(len as usize, &edges);
        for &number in &order {
            assert_eq!(idoms[number as usize], simple[number as usize], "{number} of {lists:?}");
        }
        // Who dominates comes first in the order of the search.
        let place = |number: u32| found.order.iter().position(|&n| n == number);
        assert!(order.iter().all(|&n| idoms[n as usize] == 0 || place(idoms[n as usize]) < place(n)));
    }

    proptest! {
        #[test]
        fn as_the_word_means(
            pairs in prop::collection::vec((0_usize..12, 0_u32..13), 0..36),
            first in prop::collection::vec(0_u32..12, 0..4),
            second in prop::collection::vec(0_u32..12, 0..4),
            len in 1_usize..12,
        ) {
            let mut lists = vec![Vec::new(); len];
            for (from, to) in pairs {
                lists[from % len].push(if to == 12 { STRAY } else { BASE + to % len as u32 });
            }
            let of = |all: Vec<u32>| all.into_iter().map(|to| BASE + to % len as u32).collect();
            agree(&lists, [of(first), of(second)]);
        }
    }

    #[test]
    fn a_list_and_what_all_of_it_share() {
        // 3 -> 4 -> 5, each refers to 6, which refers to 7 and back to 3; 8 is dead and refers to 7.
        let lists = [vec![4, 6], vec![5, 6], vec![6], vec![7, 3], vec![], vec![7]];
        agree(&lists, [vec![3], vec![]]);
        // 4 is a root too, so that 3 no longer keeps it.
        agree(&lists, [vec![3], vec![4]]);
    }
}

//! Shortest ways from the roots to all live objects at once.

use std::hint::black_box;

use crate::managed::Link;
use crate::managed::graph::Live;

/// For each number, the one that a shortest way from the roots comes from.
pub struct Tree {
    parents: Vec<u32>,
    /// Numbers, nearest to the roots first.
    order: Vec<u32>,
}

/// Objects that are looked up before the first of them is read.
const AHEAD: usize = 32;

/// The parent of what was not come to yet.
const NONE: u32 = u32::MAX;

impl Tree {
    /// Search level by level from all roots. `visit` gets each number once, with
    /// the one it was come to from and how that holds it; parents come first.
    pub fn shortest(live: &Live<'_>, mut visit: impl FnMut(u32, u32, Option<Link>)) -> Tree {
        let mut tree = Tree { parents: vec![NONE; live.len()], order: Vec::with_capacity(live.len()) };
        let mut meet = |tree: &mut Tree, number: u32, parent, link| {
            if let Some(known) = tree.parents.get_mut(number as usize).filter(|p| **p == NONE) {
                *known = parent;
                tree.order.push(number);
                visit(number, parent, link);
            }
        };
        for source in &live.sources {
            meet(&mut tree, source.number, 0, None);
        }
        for source in &live.sources {
            for &number in &source.entries {
                meet(&mut tree, number, source.number, None);
            }
        }
        let mut reader = live.graph.reader();
        let mut at = live.sources.len();
        let mut next: Vec<(u32, u64)> = Vec::new();
        loop {
            let batch = tree.order.get(at..).unwrap_or_default();
            let batch = batch.get(..AHEAD).unwrap_or(batch);
            if batch.is_empty() {
                break;
            }
            at += batch.len();
            next.clear();
            next.extend(batch.iter().filter_map(|&number| Some((number, live.object(number)?.get()))));
            // Objects lie anywhere: asked for together, they come together.
            black_box(next.iter().fold(0, |sum, &(_, addr)| sum ^ live.graph.first_word(addr)));
            for &(number, addr) in &next {
                reader.each(addr, |link, value| {
                    if let Some(to) = live.ids.find(live.graph.space, value) {
                        let to = live.base() + to;
                        meet(&mut tree, to, number, Some(link));
                    }
                    true
                });
            }
        }
        tree
    }

    /// Numbers of kinds of roots, then of objects, nearest to the roots first.
    pub fn order(&self) -> &[u32] {
        &self.order
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

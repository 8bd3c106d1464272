//! The live objects, in breadth-first order from the roots.
//!
//! An object's position in this order is its number. Later analyses run through tables of numbers from one end to the
//! other, without waiting for memory. The tree of shortest paths takes two bits per object: children of one parent are
//! contiguous, and the groups of children are in the order of their parents.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rayon::prelude::*;

use crate::runtimes::graph::budget::{Charge, MemoryBudget, Table};
use crate::runtimes::graph::rank_select::RankedBits;
use crate::runtimes::graph::visit_states::{HAS_REFS, LEAF, VisitStates};
use crate::runtimes::graph::work::step;

/// Flag in an entry of `ids` during the search: the object has no references.
pub(super) const LEAF_FLAG: u32 = 1 << 31;

/// Number of objects that a thread scans at once.
const SHARE: usize = 1 << 18;

/// Number of shares whose results are stored at once.
const AT_ONCE: usize = 16;

/// Number of entries in the filter before the set of wanted IDs.
const FILTER: usize = 1 << 16;

/// Live objects in breadth-first order, with the tree of shortest paths.
pub(super) struct BfsOrder {
    /// ID of each object, by number minus `base`.
    ids: Table<u32>,
    /// Number of the first object. Lower numbers are the root kinds, and 0 is the virtual root.
    base: u32,
    len: u32,
    /// The numbers that are the first child of their parent.
    first_children: RankedBits,
    /// The numbers that have children.
    with_children: RankedBits,
    _charge: Charge,
}

impl BfsOrder {
    /// Creates the order of the first `objects` entries of `ids`.
    pub(super) fn new(
        budget: &MemoryBudget,
        ids: Table<u32>,
        base: u32,
        objects: u32,
        first_children: Vec<u64>,
        with_children: Vec<u64>,
    ) -> BfsOrder {
        let (first_children, with_children) = (RankedBits::new(first_children), RankedBits::new(with_children));
        let charge = budget.charge(first_children.bytes() + with_children.bytes());
        BfsOrder { ids, base, len: base + objects, first_children, with_children, _charge: charge }
    }

    /// Resets the states of all objects to unvisited.
    pub(super) fn unvisit(&self, states: &VisitStates) {
        let objects = self.ids.get(..(self.len - self.base) as usize).unwrap_or_default();
        for entry in objects {
            let state = if entry & LEAF_FLAG != 0 { LEAF } else { HAS_REFS };
            states.set(entry & !LEAF_FLAG, state);
        }
    }

    /// Number of nodes: virtual root, root kinds and objects.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// ID of the object with this number. `None` for the virtual root and for root kinds.
    #[inline(always)]
    pub(super) fn id(&self, number: u32) -> Option<u32> {
        let at = number.checked_sub(self.base).filter(|_| number < self.len)?;
        self.ids.get(at as usize).map(|id| id & !LEAF_FLAG)
    }

    /// Iterates a range of numbers, each with its object's ID.
    pub(super) fn ids(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (from, to) = (numbers.start.max(self.base), numbers.end.clamp(self.base, self.len));
        let at = |number: u32| (number - self.base) as usize;
        let ids = self.ids.get(at(from)..at(to.max(from))).unwrap_or_default();
        (from..).zip(ids.iter().map(|id| id & !LEAF_FLAG))
    }

    /// Visits all objects in `wanted`, a set of IDs: ID and number.
    pub(super) fn numbers_in(&self, wanted: &RankedBits, mut visit: impl FnMut(u32, u32)) {
        let ids = self.ids.get(..(self.len - self.base) as usize).unwrap_or_default();
        step(ids.len());
        for (some, ids) in (0..).zip(ids.chunks(SHARE * AT_ONCE)) {
            let of_share = |(share, ids): (usize, &[u32])| {
                let first = self.base + ((some * AT_ONCE + share) * SHARE) as u32;
                let numbers = (first..).zip(ids.iter().map(|id| id & !LEAF_FLAG));
                numbers.filter(|&(_, id)| wanted.has(id)).collect::<Vec<_>>()
            };
            let found: Vec<Vec<(u32, u32)>> = ids.par_chunks(SHARE).enumerate().map(of_share).collect();
            found.into_iter().flatten().for_each(|(number, id)| visit(id, number));
        }
    }

    /// Numbers of some live objects, by ID. Scans all live objects.
    pub(super) fn numbers_of(&self, wanted: &HashSet<u32>) -> HashMap<u32, u32> {
        let ids = self.ids.get(..(self.len - self.base) as usize).unwrap_or_default();
        step(ids.len());
        // A filter by the low bits of the ID rejects most objects.
        let mut filter = vec![false; FILTER];
        for &id in wanted {
            if let Some(is) = filter.get_mut(id as usize % FILTER) {
                *is = true;
            }
        }
        let is = |id: u32| filter.get(id as usize % FILTER) == Some(&true);
        let of_share = |(share, ids): (usize, &[u32])| {
            let numbers = (self.base + (share * SHARE) as u32..).zip(ids.iter().map(|id| id & !LEAF_FLAG));
            numbers
                .filter(|&(_, id)| is(id) && wanted.contains(&id))
                .map(|(number, id)| (id, number))
                .collect::<Vec<_>>()
        };
        if wanted.is_empty() {
            return HashMap::new();
        }
        ids.par_chunks(SHARE).enumerate().flat_map_iter(of_share).collect()
    }

    /// Parent of a number on its shortest path. 0 for 0.
    pub(super) fn parent(&self, number: u32) -> u32 {
        self.parent_of_group(self.group(number))
    }

    /// Number of groups of children up to the one that contains `number`. Each group has one first child.
    #[inline]
    fn group(&self, number: u32) -> u32 {
        self.first_children.rank(number + 1)
    }

    fn parent_of_group(&self, group: u32) -> u32 {
        group.checked_sub(1).and_then(|rank| self.with_children.select(rank)).unwrap_or(0)
    }

    /// Iterates a range of numbers upwards, with each number's parent.
    pub(super) fn ascending(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let from = numbers.start.max(1);
        let mut parent = self.parent(from);
        (from..numbers.end.min(self.len)).map(move |number| {
            if number != from && self.first_children.has(number) {
                parent = self.with_children.next(parent + 1).unwrap_or(0);
            }
            (number, parent)
        })
    }

    /// Iterates all numbers but 0 downwards, with each number's parent.
    pub(super) fn descending(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut parent = self.with_children.previous(self.len).unwrap_or(0);
        (1..self.len).rev().map(move |number| {
            let own = parent;
            if self.first_children.has(number) {
                parent = self.with_children.previous(parent).unwrap_or(0);
            }
            (number, own)
        })
    }

    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { order: self, at: None }
    }

    /// Up to `limit` parents, each with the range of its children, from the group that starts at `from` on.
    pub(super) fn child_groups(&self, from: u32, limit: usize) -> Vec<(u32, Range<u32>)> {
        let mut out = Vec::with_capacity(limit);
        let mut at = from;
        let mut parent = None;
        while at < self.len && out.len() < limit {
            let up = parent.map_or_else(|| self.parent(at), |up: u32| self.with_children.next(up + 1).unwrap_or(0));
            let end = self.first_children.next(at + 1).unwrap_or(self.len).min(self.len);
            out.push((up, at..end));
            (parent, at) = (Some(up), end);
        }
        out
    }
}

/// Finds the parents of numbers that are close to each other.
pub(super) struct Cursor<'o> {
    order: &'o BfsOrder,
    /// The last group of children, by [`BfsOrder::group`], and its parent.
    at: Option<(u32, u32)>,
}

impl Cursor<'_> {
    /// Maximum distance in groups from the last parent for which a parent is found by stepping.
    const NEAR: u32 = 8;

    /// Returns the parent of `number`. The number of steps does not depend on the distance to the parent or on the size
    /// of groups.
    #[inline]
    pub(super) fn parent(&mut self, number: u32) -> u32 {
        let with_children = &self.order.with_children;
        let group = self.order.group(number);
        let parent = match self.at {
            Some((last, parent)) if group == last => parent,
            Some((last, parent)) if group > last && group - last <= Self::NEAR => {
                (last..group).fold(parent, |parent, _| with_children.next(parent + 1).unwrap_or(0))
            }
            Some((last, parent)) if group < last && last - group <= Self::NEAR => {
                (group..last).fold(parent, |parent, _| with_children.previous(parent).unwrap_or(0))
            }
            _ => self.order.parent_of_group(group),
        };
        self.at = Some((group, parent));
        parent
    }
}

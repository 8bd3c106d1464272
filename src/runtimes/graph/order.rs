//! The objects that live, nearest to the roots first.
//!
//! The place of an object in this order is its number from then on: what follows goes through tables of numbers from one end
//! to the other, and waits for memory nowhere. A shortest way to each object is two bits of it: objects that were come to
//! from one stand side by side, in the order of those that they were come to from.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rayon::prelude::*;

use crate::runtimes::graph::bits::Ranked;
use crate::runtimes::graph::room::{Held, Room, Table};

/// In the place of an object's number in the heap, while searching: it refers to nothing.
pub(super) const LEAF: u32 = 1 << 31;

/// Objects that a thread looks through at once.
const SHARE: usize = 1 << 18;

/// Shares whose findings are kept at once.
const AT_ONCE: usize = 16;

/// Entries of the filter in front of those that are looked for.
const FILTER: usize = 1 << 16;

/// The order.
pub(super) struct Order {
    /// Of each object its number in the heap.
    ids: Table<u32>,
    /// Number of the first object; below are those of kinds of roots, and 0 for all roots.
    base: u32,
    len: u32,
    /// Which of the numbers are the first that were come to from where they were.
    firsts: Ranked,
    /// Which of them others were come to from.
    ways_on: Ranked,
    _held: Held,
}

impl Order {
    /// Of so many objects in `ids`.
    pub(super) fn new(
        room: &Room,
        ids: Table<u32>,
        base: u32,
        objects: u32,
        firsts: Vec<u64>,
        ways_on: Vec<u64>,
    ) -> Order {
        let (firsts, ways_on) = (Ranked::new(firsts), Ranked::new(ways_on));
        let held = room.hold(firsts.bytes() + ways_on.bytes());
        Order { ids, base, len: base + objects, firsts, ways_on, _held: held }
    }

    /// Numbers given: to all roots together, to kinds of roots, to objects.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The number of the first object.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// The object of that number, by its number in the heap.
    #[inline(always)]
    pub(super) fn id(&self, number: u32) -> Option<u32> {
        let at = number.checked_sub(self.base).filter(|_| number < self.len)?;
        self.ids.get(at as usize).map(|id| id & !LEAF)
    }

    /// Those of some.
    pub(super) fn ids(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (from, to) = (numbers.start.max(self.base), numbers.end.clamp(self.base, self.len));
        let at = |number: u32| (number - self.base) as usize;
        let ids = self.ids.get(at(from)..at(to.max(from))).unwrap_or_default();
        (from..).zip(ids.iter().map(|id| id & !LEAF))
    }

    /// Visit all whose bit is set: number in the heap, and number.
    pub(super) fn numbers_in(&self, wanted: &Ranked, mut visit: impl FnMut(u32, u32)) {
        let ids = self.ids.get(..(self.len - self.base) as usize).unwrap_or_default();
        for (some, ids) in (0..).zip(ids.chunks(SHARE * AT_ONCE)) {
            let of_share = |(share, ids): (usize, &[u32])| {
                let first = self.base + ((some * AT_ONCE + share) * SHARE) as u32;
                let numbers = (first..).zip(ids.iter().map(|id| id & !LEAF));
                numbers.filter(|&(_, id)| wanted.has(id)).collect::<Vec<_>>()
            };
            let found: Vec<Vec<(u32, u32)>> = ids.par_chunks(SHARE).enumerate().map(of_share).collect();
            found.into_iter().flatten().for_each(|(number, id)| visit(id, number));
        }
    }

    /// The numbers of some objects that live, by a look at all.
    pub(super) fn numbers_of(&self, wanted: &HashSet<u32>) -> HashMap<u32, u32> {
        let ids = self.ids.get(..(self.len - self.base) as usize).unwrap_or_default();
        // Most are told from these by some bits of theirs.
        let mut filter = vec![false; FILTER];
        for &id in wanted {
            if let Some(is) = filter.get_mut(id as usize % FILTER) {
                *is = true;
            }
        }
        let is = |id: u32| filter.get(id as usize % FILTER) == Some(&true);
        let of_share = |(share, ids): (usize, &[u32])| {
            let numbers = (self.base + (share * SHARE) as u32..).zip(ids.iter().map(|id| id & !LEAF));
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

    /// Where the shortest way to a number comes from; 0 for 0.
    pub(super) fn parent(&self, number: u32) -> u32 {
        let firsts = self.firsts.rank(number + 1);
        firsts.checked_sub(1).and_then(|rank| self.ways_on.select(rank)).unwrap_or(0)
    }

    /// Numbers from `from` on, each with where the way to it comes from.
    pub(super) fn upwards(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let from = numbers.start.max(1);
        let mut parent = self.parent(from);
        (from..numbers.end.min(self.len)).map(move |number| {
            if number != from && self.firsts.has(number) {
                parent = self.ways_on.next(parent + 1).unwrap_or(0);
            }
            (number, parent)
        })
    }

    /// All numbers but 0, the farthest first, each with where the way to it comes from.
    pub(super) fn downwards(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut parent = self.ways_on.previous(self.len).unwrap_or(0);
        (1..self.len).rev().map(move |number| {
            let own = parent;
            if self.firsts.has(number) {
                parent = self.ways_on.previous(parent).unwrap_or(0);
            }
            (number, own)
        })
    }

    /// Some numbers, the farthest first, each with where the way to it comes from.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { order: self, at: None }
    }

    /// Those that were come to from something, with what that is, and which they are.
    pub(super) fn groups(&self, from: u32, most: usize) -> Vec<(u32, Range<u32>)> {
        let mut out = Vec::with_capacity(most);
        let mut at = from;
        let mut parent = None;
        while at < self.len && out.len() < most {
            let up = parent.map_or_else(|| self.parent(at), |up: u32| self.ways_on.next(up + 1).unwrap_or(0));
            let end = self.firsts.next(at + 1).unwrap_or(self.len).min(self.len);
            out.push((up, at..end));
            (parent, at) = (Some(up), end);
        }
        out
    }
}

/// Finds where ways come from, of numbers that are near each other.
pub(super) struct Cursor<'o> {
    order: &'o Order,
    /// A number, and where the way to it comes from.
    at: Option<(u32, u32)>,
}

impl Cursor<'_> {
    /// Numbers up to this far from the last are found from there.
    const NEAR: u32 = 256;

    /// Where the way to a number comes from.
    #[inline]
    pub(super) fn parent(&mut self, number: u32) -> u32 {
        let Order { firsts, ways_on, .. } = self.order;
        let parent = match self.at {
            Some((last, parent)) if number <= last && last - number < Self::NEAR => {
                let mut parent = parent;
                let mut at = last;
                // Each that is a first between them is one step back.
                while let Some(first) = firsts.previous(at + 1).filter(|&first| first > number) {
                    parent = ways_on.previous(parent).unwrap_or(0);
                    at = first - 1;
                }
                parent
            }
            Some((last, parent)) if number > last && number - last < Self::NEAR => {
                let mut parent = parent;
                let mut at = last;
                while let Some(first) = firsts.next(at + 1).filter(|&first| first <= number) {
                    parent = ways_on.next(parent + 1).unwrap_or(0);
                    at = first;
                }
                parent
            }
            _ => self.order.parent(number),
        };
        self.at = Some((number, parent));
        parent
    }
}

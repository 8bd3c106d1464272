//! All objects that roots lead to, numbered in the order of a depth-first
//! search: what dominators are found by.
//!
//! Number 0 stands for all roots together. Each kind of root has a number of its
//! own too, between 0 and its roots' objects: what that dominates is kept by
//! roots of this kind alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::managed::graph::Graph;
use crate::managed::graph::slots::{Slots, Walked};
use crate::managed::{Losses, ObjectReader, Root, RootKind, Tally, TypeIndex};

/// The slot of what is no object.
const NO_SLOT: u32 = u32::MAX;

/// Slots that a thread takes at once.
pub(super) const CHUNK: usize = 1 << 16;

/// References of an object that are read at first, and then at once: of a large array the
/// first that is not numbered yet is enough for now.
const FEW: usize = 4;
const MANY: usize = 64;

/// More objects than can be numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {} objects: what keeps what is not told", crate::limits::MAX_LIVE_OBJECTS)]
pub struct TooMany;

/// All roots of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The kind.
    pub kind: RootKind,
    /// Its number.
    pub number: u32,
    /// How many of them lead to an object.
    pub roots: u64,
    /// Whether their objects may be arrays of static variables.
    pub static_arrays: bool,
    /// Slots of their objects.
    slots: Vec<u32>,
}

/// The objects of a heap that live.
pub struct Live<'g> {
    pub(super) graph: Graph<'g>,
    pub(super) slots: Slots,
    /// By number, the slot of an object.
    vertices: Vec<u32>,
    /// Kinds of roots, in the order of their numbers.
    pub sources: Vec<Source>,
    /// What could not be walked: no object of it is known.
    pub losses: Losses,
    /// Roots that lead to no object.
    pub stray_roots: u64,
}

/// An object that has more to be looked at from `place` on.
struct Frame {
    addr: u64,
    number: u32,
    place: u32,
}

impl<'g> Live<'g> {
    /// Find what `roots`, and objects in frozen segments, lead to. With it, by
    /// number, what each was first come to from.
    ///
    /// # Errors
    /// [`TooMany`]
    pub(super) fn find(graph: Graph<'g>, roots: &[Root]) -> Result<(Live<'g>, Vec<u32>), TooMany> {
        let (slots, Walked { frozen, losses }) = Slots::new(graph).ok_or(TooMany)?;
        let mut by_kind: BTreeMap<RootKind, Vec<u32>> = BTreeMap::new();
        let with_statics: BTreeSet<RootKind> = roots.iter().filter(|r| r.static_arrays == 1).map(|r| r.kind).collect();
        let mut stray_roots = 0;
        for root in roots {
            match slots.find(graph.space, root.object.get()) {
                Some((slot, _)) => by_kind.entry(root.kind).or_default().push(slot),
                None => stray_roots += 1,
            }
        }
        if !frozen.is_empty() {
            by_kind.insert(RootKind::Frozen, frozen);
        }
        let mut live = Live { graph, slots, vertices: vec![NO_SLOT], sources: Vec::new(), losses, stray_roots };
        let mut parents = vec![0];
        let mut reader = graph.reader();
        let mut stack = Vec::new();
        for (kind, slots) in by_kind {
            let number = live.number(NO_SLOT, 0, &mut parents);
            for &slot in &slots {
                if live.slots.number(slot) == 0
                    && let Some(addr) = live.slots.address(graph.space, slot)
                {
                    let first = live.number(slot, number, &mut parents);
                    stack.push(Frame { addr: addr.get(), number: first, place: 0 });
                    live.descend(&mut *reader, &mut stack, &mut parents);
                }
            }
            let static_arrays = with_statics.contains(&kind);
            live.sources.push(Source { kind, number, roots: slots.len() as u64, static_arrays, slots });
        }
        Ok((live, parents))
    }

    /// Give the next number.
    fn number(&mut self, slot: u32, parent: u32, parents: &mut Vec<u32>) -> u32 {
        let number = self.vertices.len() as u32;
        self.vertices.push(slot);
        parents.push(parent);
        if slot != NO_SLOT {
            self.slots.set(slot, number);
        }
        number
    }

    /// Number all that what is on the stack leads to. An object stays on the
    /// stack only while it has more than one that is not numbered: lists of any
    /// length need none of it, where they end in the next node.
    fn descend(&mut self, reader: &mut dyn ObjectReader, stack: &mut Vec<Frame>, parents: &mut Vec<u32>) {
        let graph = self.graph;
        let mut held = Vec::new();
        while let Some(mut at) = stack.pop() {
            loop {
                let (mut child, mut more) = (None, None);
                let (mut from, mut most) = (Some(at.place), FEW);
                while let (Some(start), None) = (from, more) {
                    from = reader.targets(at.addr, start, most, &mut held);
                    for &(place, value) in &held {
                        let Some((slot, 0)) = self.slots.find(graph.space, value) else { continue };
                        match child {
                            None => child = Some((slot, value)),
                            Some((first, _)) if first == slot => {}
                            Some(_) => {
                                more = Some(place);
                                break;
                            }
                        }
                    }
                    most = MANY;
                }
                let Some((slot, addr)) = child else { break };
                let number = self.number(slot, at.number, parents);
                if let Some(place) = more {
                    stack.push(Frame { place, ..at });
                }
                at = Frame { addr, number, place: 0 };
            }
        }
    }

    /// Numbers given: objects, kinds of roots, and the one of all roots.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Whether no root leads to anything.
    pub fn is_empty(&self) -> bool {
        self.vertices.len() <= 1 + self.sources.len()
    }

    /// The object of that number; none for what stands for roots.
    pub fn object(&self, number: u32) -> Option<Addr> {
        let slot = *self.vertices.get(number as usize)?;
        self.slots.address(self.graph.space, slot)
    }

    /// The number of the object at `addr`; `Some(0)` where no root leads to it.
    pub fn number_of(&self, addr: Addr) -> Option<u32> {
        self.slots.find(self.graph.space, addr.get()).map(|(_, number)| number)
    }

    /// The kind of root that a number stands for.
    pub fn source(&self, number: u32) -> Option<&Source> {
        self.sources.iter().find(|s| s.number == number)
    }

    /// Numbers of the objects that roots of a kind lead to.
    pub(super) fn entries<'s>(&'s self, source: &'s Source) -> impl Iterator<Item = u32> + 's {
        source.slots.iter().map(|&slot| self.slots.number(slot)).filter(|&n| n != 0)
    }

    /// Objects that no root leads to, by type.
    pub fn unreachable(&self) -> HashMap<TypeIndex, Tally> {
        let (graph, len) = (self.graph, self.slots.len());
        let of_chunk = |chunk: usize| {
            let mut reader = graph.reader();
            let mut tallies: HashMap<TypeIndex, Tally> = HashMap::new();
            let from = chunk * CHUNK;
            self.slots.each(graph.space, from..(from + CHUNK).min(len), |number, addr| {
                if number == 0
                    && let Some(node) = reader.node(addr.get())
                {
                    tallies.entry(node.kind).or_default().add(1, node.counted_size);
                }
            });
            tallies
        };
        let join = |mut a: HashMap<TypeIndex, Tally>, b: HashMap<TypeIndex, Tally>| {
            for (kind, tally) in b {
                a.entry(kind).or_default().add(tally.count, tally.size);
            }
            a
        };
        (0..len.div_ceil(CHUNK)).into_par_iter().map(of_chunk).reduce(HashMap::new, join)
    }
}

//! All objects that roots lead to.
//!
//! Number 0 stands for all roots together. Each kind of root has a number of its own too: what
//! that dominates is kept by roots of this kind alone. The objects of the heap follow, by address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::managed::graph::Graph;
use crate::managed::graph::deep::{Known, idoms};
use crate::managed::graph::ids::{Ids, Walked};
use crate::managed::graph::reach::{Reached, reach};
use crate::managed::graph::rows::{CHUNK, Rows, STRAY};
use crate::managed::{FREE, Losses, Object, Part, Root, RootKind, Tally, TypeIndex};

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
    /// Numbers of their objects.
    pub(super) entries: Vec<u32>,
}

/// The objects of a heap that live, and the heap.
pub struct Live<'g> {
    pub(super) graph: Graph<'g>,
    pub(super) numbered: Arc<Numbered>,
}

impl Deref for Live<'_> {
    type Target = Numbered;

    fn deref(&self) -> &Numbered {
        &self.numbered
    }
}

/// What is known of the objects of a heap that live, without the heap: whoever asks again needs no second search.
pub struct Numbered {
    pub(super) ids: Ids,
    pub(super) reached: Reached,
    /// The number of the first object.
    base: u32,
    /// Kinds of roots, in the order of their numbers.
    pub sources: Vec<Source>,
    /// What could not be walked: no object of it is known.
    pub losses: Losses,
    /// Roots that lead to no object.
    pub stray_roots: u64,
}

/// What is found with them.
pub(super) struct Found {
    /// By number, what dominates it and nothing else between them.
    pub(super) idoms: Vec<u32>,
    /// References of live objects that lead to no object.
    pub(super) strays: u64,
}

impl<'g> Live<'g> {
    /// Find what `roots`, and objects in frozen segments, lead to, and what dominates what.
    ///
    /// # Errors
    /// [`TooMany`]
    pub(super) fn find(graph: Graph<'g>, roots: &[Root]) -> Result<(Live<'g>, Found), TooMany> {
        let frozen = |out: &mut Vec<u64>, part: &Part, object: &Object| {
            if part.generation.frozen && object.kind != FREE {
                out.push(object.addr.get());
            }
        };
        let (ids, Walked { seen, losses }) = Ids::new(graph.heap, frozen, |_| {}).ok_or(TooMany)?;
        if ids.len() as usize > limits::MAX_LIVE_OBJECTS {
            return Err(TooMany);
        }
        let frozen = seen.concat();
        let mut by_kind: BTreeMap<RootKind, Vec<u32>> = BTreeMap::new();
        let with_statics: BTreeSet<RootKind> = roots.iter().filter(|r| r.static_arrays == 1).map(|r| r.kind).collect();
        let mut stray_roots = 0;
        for root in roots {
            match ids.find(graph.space, root.object.get()) {
                Some(id) => by_kind.entry(root.kind).or_default().push(id),
                None => stray_roots += 1,
            }
        }
        if !frozen.is_empty() {
            let frozen = frozen.iter().filter_map(|&addr| ids.find(graph.space, addr));
            by_kind.insert(RootKind::Frozen, frozen.collect());
        }
        let base = 1 + by_kind.len() as u32;
        let mut sources = Vec::new();
        for (number, (kind, ids)) in (1..).zip(by_kind) {
            let entries: Vec<u32> = ids.into_iter().map(|id| base + id).collect();
            let static_arrays = with_statics.contains(&kind);
            sources.push(Source { kind, number, roots: entries.len() as u64, static_arrays, entries });
        }
        let (rows, holders) = Rows::read(graph, &ids, base)?;
        let known = Known { rows: &rows, holders: &holders, sources: &sources, base, len: base + ids.len() };
        let reached = reach(known);
        let idoms = idoms(known, &reached)?;
        let strays = strays(known, &reached);
        drop(rows);
        let numbered = Arc::new(Numbered { ids, reached, base, sources, losses, stray_roots });
        Ok((Live { graph, numbered }, Found { idoms, strays }))
    }

    /// Numbers given: objects, dead ones too, kinds of roots, and the one of all roots.
    pub fn len(&self) -> usize {
        (self.base + self.ids.len()) as usize
    }

    /// Whether no root leads to anything.
    pub fn is_empty(&self) -> bool {
        self.reached.order.len() <= self.sources.len()
    }

    /// The object of that number; none for what stands for roots.
    pub fn object(&self, number: u32) -> Option<Addr> {
        self.ids.address(self.graph.space, number.checked_sub(self.base)?)
    }

    /// The number of the object at `addr`; `Some(0)` where no root leads to it.
    pub fn number_of(&self, addr: Addr) -> Option<u32> {
        let number = self.base + self.ids.find(self.graph.space, addr.get())?;
        Some(if self.reached.live.has(number) { number } else { 0 })
    }

    /// The kind of root that a number stands for.
    pub fn source(&self, number: u32) -> Option<&Source> {
        self.sources.iter().find(|s| s.number == number)
    }

    /// The number of the first object.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// Visit the objects of a chunk by address: number and address.
    pub(super) fn each(&self, chunk: u32, mut visit: impl FnMut(u32, u64)) {
        let from = chunk * CHUNK;
        let ids = from..(from + CHUNK).min(self.ids.len());
        self.ids.each(self.graph.space, ids, |id, addr| visit(self.base + id, addr));
    }

    /// Objects that no root leads to, by type.
    pub fn unreachable(&self) -> HashMap<TypeIndex, Tally> {
        let of_chunk = |chunk: u32| {
            let mut reader = self.graph.reader();
            let mut tallies: HashMap<TypeIndex, Tally> = HashMap::new();
            self.each(chunk, |number, addr| {
                if !self.reached.live.has(number)
                    && let Some(node) = reader.node(addr)
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
        (0..self.ids.len().div_ceil(CHUNK)).into_par_iter().map(of_chunk).reduce(HashMap::new, join)
    }
}

/// References of live objects that lead to no object.
fn strays(known: Known<'_>, reached: &Reached) -> u64 {
    let of = |id: u32, targets: &[u32]| {
        let strays = targets.iter().filter(|&&to| to == STRAY).count() as u64;
        if strays > 0 && reached.live.has(known.base + id) { strays } else { 0 }
    };
    known.rows.sum(of)
}

//! One pass over all objects of a heap: types, sizes and references.

use std::ops::AddAssign;

use crate::runtimes::api::{Looked, Tally};
use crate::runtimes::graph::Graph;
use crate::runtimes::graph::adjacency::{Builder, CHUNK, Chunk, Rows, STRAY, Store};
use crate::runtimes::graph::budget::{GraphError, Held, Room};
use crate::runtimes::graph::object_ids::Ids;
use crate::runtimes::graph::packed_index::Narrow;
use crate::runtimes::graph::visit_states::States;

/// Number of objects read in one batch, and the maximum number of references per batch.
const TOGETHER: usize = 128;
const MOST: usize = 4096;

pub(super) struct Read {
    pub(super) rows: Rows,
    pub(super) states: States,
    /// Type of each object, by ID.
    pub(super) kinds: Narrow,
    /// Sums of all objects, by type.
    pub(super) sums: Vec<KindSum>,
    pub(super) _held: Held,
}

/// Count and sizes of all objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KindSum {
    pub(super) all: Tally,
    /// Minimum and maximum size of one object, in bytes.
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Default for KindSum {
    fn default() -> KindSum {
        KindSum { all: Tally::default(), least: u64::MAX, most: 0 }
    }
}

impl AddAssign for KindSum {
    fn add_assign(&mut self, other: KindSum) {
        self.all = self.all.plus(other.all);
        (self.least, self.most) = (self.least.min(other.least), self.most.max(other.most));
    }
}

impl KindSum {
    /// The size that all objects of the type have. `None` if sizes differ.
    pub(super) fn fixed(&self) -> Option<u64> {
        (self.least == self.most).then_some(self.least)
    }
}

struct Seen {
    chunk: Chunk,
    /// One bit per object: whether it has references.
    holders: Vec<u64>,
    /// Sums by type, for the types in this chunk.
    sums: Vec<(u32, KindSum)>,
}

impl Read {
    /// Reads all objects.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn all(graph: Graph<'_>, ids: &Ids, room: &Room) -> Result<Read, GraphError> {
        let mut kinds = Narrow::new(room, ids.len() as usize, graph.heap.types())?;
        let store = Store::new(room, ids.len() as usize);
        let seen = kinds.fill(CHUNK as usize, |number, share| {
            one(graph, ids, number as u32 * CHUNK, &store, |at, kind| share.set(at, kind))
        });
        let (mut chunks, mut holders, mut sums) = (Vec::new(), Vec::new(), Vec::<KindSum>::new());
        for seen in seen {
            let seen = seen?;
            chunks.push(seen.chunk);
            holders.push(seen.holders);
            for (kind, sum) in seen.sums {
                if sums.len() <= kind as usize {
                    sums.resize(kind as usize + 1, KindSum::default());
                }
                if let Some(all) = sums.get_mut(kind as usize) {
                    *all += sum;
                }
            }
        }
        let states = States::new(holders.into_iter().flatten());
        let held = room.hold(states.bytes());
        Ok(Read { rows: Rows::new(store, chunks), states, kinds, sums, _held: held })
    }
}

/// Reads the objects of one chunk, starting with ID `first`.
fn one(
    graph: Graph<'_>,
    ids: &Ids,
    first: u32,
    store: &Store<'_>,
    mut set: impl FnMut(usize, u32),
) -> Result<Seen, GraphError> {
    let mut reader = graph.reader();
    let mut builder = Builder::from(first);
    let end = (first + CHUNK).min(ids.len());
    let mut holders = vec![0_u64; (end - first).div_ceil(64) as usize];
    let mut sums = Sums::default();
    let mut looked = Looked::default();
    let mut more: Vec<(u32, u64)> = Vec::new();
    let mut at = 0_usize;
    let mut all: Vec<u64> = Vec::with_capacity((end - first) as usize);
    ids.each(graph.space, first..end, |_, addr| all.push(addr));
    let (mut places, mut targets) = (Vec::new(), Vec::new());
    while let Some(addrs) = all.get(at..(at + TOGETHER).min(all.len())).filter(|some| !some.is_empty()) {
        reader.look(addrs, MOST, &mut looked);
        let done = looked.nodes.len();
        ids.find_all(graph.space, &looked.held, STRAY, &mut places, &mut targets);
        let mut found = targets.iter();
        for (i, (node, held)) in looked.each().enumerate() {
            if let Some(node) = node {
                set(at, node.kind.0);
                sums.add(node.kind.0, node.counted_size);
            }
            found.by_ref().take(held.len()).for_each(|&to| builder.push(to));
            let mut next = looked.next.filter(|_| i + 1 == done);
            while let Some(place) = next {
                next = reader.targets(addrs.get(i).copied().unwrap_or(0), place, MOST, &mut more);
                more.iter().for_each(|&(_, value)| builder.push(ids.find(graph.space, value).unwrap_or(STRAY)));
            }
            if builder.end()? > 0
                && let Some(word) = holders.get_mut(at / 64)
            {
                *word |= 1 << (at % 64);
            }
            at += 1;
        }
    }
    Ok(Seen { chunk: builder.finish(store)?, holders, sums: sums.done() })
}

/// Sums by type for few types. Neighbouring objects usually share a type.
#[derive(Default)]
struct Sums {
    all: Vec<(u32, KindSum)>,
    /// By type: 1 + index in `all`. 0 if the type was not seen yet.
    places: Vec<u32>,
    /// Sum of the latest type, not yet added to `all`.
    last: (u32, KindSum),
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, kind: u32, size: u64) {
        if kind != self.last.0 {
            self.settle();
            self.last.0 = kind;
        }
        let KindSum { all, least, most } = &mut self.last.1;
        all.count += 1;
        all.size = all.size.saturating_add(size);
        (*least, *most) = ((*least).min(size), (*most).max(size));
    }

    fn done(mut self) -> Vec<(u32, KindSum)> {
        self.settle();
        self.all
    }

    fn settle(&mut self) {
        let (kind, sum) = std::mem::take(&mut self.last);
        if sum.all.count == 0 {
            return;
        }
        let place = self.places.get(kind as usize).copied().unwrap_or(0) as usize;
        match place.checked_sub(1).and_then(|at| self.all.get_mut(at)) {
            Some((_, all)) => *all += sum,
            None => self.first(kind, sum),
        }
    }

    #[cold]
    fn first(&mut self, kind: u32, sum: KindSum) {
        self.all.push((kind, sum));
        if self.places.len() <= kind as usize {
            self.places.resize(kind as usize + 1, 0);
        }
        if let Some(place) = self.places.get_mut(kind as usize) {
            *place = self.all.len() as u32;
        }
    }
}

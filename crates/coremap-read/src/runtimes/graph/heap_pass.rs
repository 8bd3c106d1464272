//! One pass over all objects of a heap: types, sizes and references.

use std::ops::AddAssign;

use crate::runtimes::api::{ObjectBatch, Tally};
use crate::runtimes::graph::Graph;
use crate::runtimes::graph::adjacency::{Adjacency, Builder, CHUNK, Chunk, STRAY, Store};
use crate::runtimes::graph::budget::{Charge, GraphError, MemoryBudget};
use crate::runtimes::graph::object_ids::ObjectIds;
use crate::runtimes::graph::packed_index::PackedIndices;
use crate::runtimes::graph::visit_states::VisitStates;

/// Number of objects read in one batch, and the maximum number of references per batch.
const BATCH: usize = 128;
const MAX_REFS: usize = 4096;

pub(super) struct HeapPass {
    pub(super) adjacency: Adjacency,
    pub(super) states: VisitStates,
    /// Type of each object, by ID.
    pub(super) kinds: PackedIndices,
    /// Sums of all objects, by type.
    pub(super) sums: Vec<KindSum>,
    pub(super) _charge: Charge,
}

/// Count and sizes of all objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KindSum {
    pub(super) all: Tally,
    /// Minimum and maximum size of one object, in bytes.
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Default for KindSum {
    fn default() -> KindSum {
        KindSum { all: Tally::default(), min: u64::MAX, max: 0 }
    }
}

impl AddAssign for KindSum {
    fn add_assign(&mut self, other: KindSum) {
        self.all = self.all.plus(other.all);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }
}

impl KindSum {
    /// The size that all objects of the type have. `None` if sizes differ.
    pub(super) fn fixed(&self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }
}

struct ChunkResult {
    chunk: Chunk,
    /// One bit per object: whether it has references.
    holders: Vec<u64>,
    /// Sums by type, for the types in this chunk.
    sums: Vec<(u32, KindSum)>,
}

impl HeapPass {
    /// Reads all objects.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn run(graph: Graph<'_>, ids: &ObjectIds, budget: &MemoryBudget) -> Result<HeapPass, GraphError> {
        let mut kinds = PackedIndices::new(budget, ids.len() as usize, graph.heap.types())?;
        let store = Store::new(budget, ids.len() as usize);
        let seen = kinds.fill(CHUNK as usize, |number, share| {
            budget.in_time()?;
            read_chunk(graph, ids, number as u32 * CHUNK, &store, |at, kind| share.set(at, kind))
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
        let states = VisitStates::new(holders.into_iter().flatten());
        let charge = budget.charge(states.bytes());
        Ok(HeapPass { adjacency: Adjacency::new(store, chunks), states, kinds, sums, _charge: charge })
    }
}

/// Reads the objects of one chunk, starting with ID `first`.
fn read_chunk(
    graph: Graph<'_>,
    ids: &ObjectIds,
    first: u32,
    store: &Store<'_>,
    mut set: impl FnMut(usize, u32),
) -> Result<ChunkResult, GraphError> {
    let mut reader = graph.reader();
    let mut builder = Builder::from(first);
    let end = (first + CHUNK).min(ids.len());
    let mut holders = vec![0_u64; (end - first).div_ceil(64) as usize];
    let mut sums = ChunkSums::default();
    let mut looked = ObjectBatch::default();
    let mut more: Vec<(u32, u64)> = Vec::new();
    let mut at = 0_usize;
    let mut all: Vec<u64> = Vec::with_capacity((end - first) as usize);
    ids.each(graph.space, first..end, |_, addr| all.push(addr));
    let (mut places, mut targets) = (Vec::new(), Vec::new());
    while let Some(addrs) = all.get(at..(at + BATCH).min(all.len())).filter(|some| !some.is_empty()) {
        reader.read_batch(addrs, MAX_REFS, &mut looked);
        let done = looked.nodes.len();
        ids.find_all(graph.space, &looked.references, STRAY, &mut places, &mut targets);
        let mut found = targets.iter();
        for (i, (node, held)) in looked.objects().enumerate() {
            if let Some(node) = node {
                set(at, node.kind.0);
                sums.add(node.kind.0, node.counted_size);
            }
            found.by_ref().take(held.len()).for_each(|&to| builder.push(to));
            let mut next = looked.next.filter(|_| i + 1 == done);
            while let Some(place) = next {
                next = reader.targets(addrs.get(i).copied().unwrap_or(0), place, MAX_REFS, &mut more);
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
    Ok(ChunkResult { chunk: builder.finish(store)?, holders, sums: sums.done() })
}

/// Sums by type for few types. Neighbouring objects usually share a type.
#[derive(Default)]
struct ChunkSums {
    all: Vec<(u32, KindSum)>,
    /// By type: 1 + index in `all`. 0 if the type was not seen yet.
    places: Vec<u32>,
    /// Sum of the latest type, not yet added to `all`.
    last: (u32, KindSum),
}

impl ChunkSums {
    #[inline(always)]
    fn add(&mut self, kind: u32, size: u64) {
        if kind != self.last.0 {
            self.flush();
            self.last.0 = kind;
        }
        let KindSum { all, min: least, max: most } = &mut self.last.1;
        all.count += 1;
        all.size = all.size.saturating_add(size);
        (*least, *most) = ((*least).min(size), (*most).max(size));
    }

    fn done(mut self) -> Vec<(u32, KindSum)> {
        self.flush();
        self.all
    }

    fn flush(&mut self) {
        let (kind, sum) = std::mem::take(&mut self.last);
        if sum.all.count == 0 {
            return;
        }
        let place = self.places.get(kind as usize).copied().unwrap_or(0) as usize;
        match place.checked_sub(1).and_then(|at| self.all.get_mut(at)) {
            Some((_, all)) => *all += sum,
            None => self.add_type(kind, sum),
        }
    }

    #[cold]
    fn add_type(&mut self, kind: u32, sum: KindSum) {
        self.all.push((kind, sum));
        if self.places.len() <= kind as usize {
            self.places.resize(kind as usize + 1, 0);
        }
        if let Some(place) = self.places.get_mut(kind as usize) {
            *place = self.all.len() as u32;
        }
    }
}

//! Retained sizes: the bytes that would be freed with each object.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use crate::runtimes::api::{ObjectReader, Root, Tally, TypeIndex};
use crate::runtimes::graph::budget::{GraphError, MemoryBudget};
use crate::runtimes::graph::heap_pass::KindSum;
use crate::runtimes::graph::live_graph::{GraphData, GraphSize, LiveObjects};
use crate::runtimes::graph::own_sizes::{OwnSizes, own_sizes};
use crate::runtimes::graph::packed_index::PackedIndices;
use crate::runtimes::graph::packed_size::PackedSizes;
use crate::runtimes::graph::root_bfs::{has_bit, set_bit};
use crate::runtimes::graph::shared_dominators::SharedDominators;
use crate::runtimes::graph::type_sums::{DominatorRow, SumsError, type_sums};
use crate::runtimes::graph::{Graph, LiveGraph};

/// Live objects, with the sizes that they retain.
pub struct Retained<'g> {
    /// The live objects.
    pub live: LiveGraph<'g>,
    sums: Arc<RetainedSums>,
}

impl Deref for Retained<'_> {
    type Target = RetainedSums;

    fn deref(&self) -> &RetainedSums {
        &self.sums
    }
}

/// What each live object dominates, without the heap.
pub struct RetainedSums {
    shared_dominators: Option<SharedDominators>,
    /// Retained bytes, by number.
    retained: PackedSizes,
    kinds: PackedIndices,
    /// By type: sums of all objects, and of live objects.
    by_kind: Vec<(KindSum, Tally)>,
    /// Count and size of all live objects.
    pub total: Tally,
    /// Number of references from live objects that point to no object.
    pub strays: u64,
    /// Number of references of all objects.
    pub references: u64,
    #[doc(hidden)]
    pub budget: MemoryBudget,
}

/// All results for a heap, without the heap itself.
#[derive(Clone)]
pub(crate) struct CachedGraph {
    objects: Arc<LiveObjects>,
    sums: Arc<RetainedSums>,
}

/// Sums of the live objects of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSum {
    /// The type.
    pub kind: TypeIndex,
    /// Count and size of the objects themselves.
    pub own: Tally,
    /// Bytes retained by objects of the type. An object that is dominated by another one of its type counts only in
    /// what that one retains.
    pub retained: u64,
}

impl<'g> Retained<'g> {
    /// Finds the objects that `roots` keep alive, and what they retain. Tables that exceed `budget` go to files. Calls
    /// `on_size` with the graph's size and memory needs before the search begins.
    ///
    /// # Errors
    /// [`GraphError`]
    pub fn find(
        graph: Graph<'g>,
        roots: &[Root],
        budget: &MemoryBudget,
        on_size: impl FnOnce(GraphSize),
    ) -> Result<Retained<'g>, GraphError> {
        let (live, found) = LiveGraph::find(graph, roots, budget, on_size)?;
        let GraphData { shared_dominators, kinds, sums, strays, references } = found;
        let OwnSizes { kinds, sizes: mut kept, live: own } = own_sizes(&live, kinds, &sums, budget)?;
        let mut total = Tally::default();
        let by_kind: Vec<(KindSum, Tally)> = sums.into_iter().zip(own).collect();
        by_kind.iter().for_each(|(_, own)| total.add(own.count, own.size));
        let shared = shared_dominators.as_ref();
        for (number, parent) in live.order.descending() {
            budget.in_time_at(number as usize)?;
            let up = shared.and_then(|shared| shared.get(number)).unwrap_or(parent) as usize;
            kept.set(up, kept.get(up).saturating_add(kept.get(number as usize)));
        }
        let sums = RetainedSums {
            shared_dominators,
            retained: kept,
            kinds,
            by_kind,
            total,
            strays,
            references,
            budget: budget.clone(),
        };
        Ok(Retained { live, sums: Arc::new(sums) })
    }

    /// The results, for [`Retained::from_cached`].
    pub(crate) fn to_cached(&self) -> CachedGraph {
        CachedGraph { objects: Arc::clone(&self.live.objects), sums: Arc::clone(&self.sums) }
    }

    /// Restores earlier results. `graph` must be of the same heap.
    pub(crate) fn from_cached(graph: Graph<'g>, kept: CachedGraph) -> Retained<'g> {
        let CachedGraph { objects: numbered, sums } = kept;
        Retained { live: LiveGraph { graph, objects: numbered }, sums }
    }

    /// The immediate dominator of `number`. It is always lower than `number`.
    pub fn dominator(&self, number: u32) -> u32 {
        let upper = self.shared_dominators.as_ref().and_then(|shared_dominators| shared_dominators.get(number));
        upper.unwrap_or_else(|| self.live.order.parent(number))
    }

    /// Iterates all numbers but 0 with their immediate dominators. Dominators come before what they dominate.
    pub fn dominators(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let shared_dominators = self.shared_dominators.as_ref();
        let upwards = self.live.order.ascending(1..self.live.order.len());
        upwards.map(move |(number, parent)| {
            (number, shared_dominators.and_then(|shared_dominators| shared_dominators.get(number)).unwrap_or(parent))
        })
    }

    /// Bytes that `number` retains, its own size included.
    pub fn bytes(&self, number: u32) -> u64 {
        self.retained.get(number as usize)
    }

    /// Size in bytes of the object itself. 0 for the virtual root and for root kinds.
    pub fn own(&self, number: u32, reader: &mut dyn ObjectReader) -> u64 {
        let Some(kind) = self.kinds.get(number as usize) else { return 0 };
        let fixed = self.by_kind.get(kind as usize).and_then(|(all, _)| all.fixed());
        let read = || self.live.object(number).and_then(|at| reader.node(at.get())).map_or(0, |node| node.counted_size);
        fixed.unwrap_or_else(read)
    }

    /// Type of an object. `None` for the virtual root and for root kinds.
    pub fn kind(&self, number: u32) -> Option<TypeIndex> {
        self.kinds.get(number as usize).map(TypeIndex)
    }

    /// Objects that no root leads to, by type.
    pub fn unreachable(&self) -> HashMap<TypeIndex, Tally> {
        let dead = |(all, live): &(KindSum, Tally)| Tally {
            count: all.all.count.saturating_sub(live.count),
            size: all.all.size.saturating_sub(live.size),
        };
        let all = (0..).map(TypeIndex).zip(self.by_kind.iter().map(dead));
        all.filter(|(_, dead)| dead.count > 0).collect()
    }

    /// The `limit` objects that retain most, of those that `pick` accepts. Equal sizes are ordered by address.
    pub fn top(&self, limit: usize, pick: impl Fn(u32, TypeIndex) -> bool) -> Vec<u32> {
        let mut heap = BinaryHeap::new();
        let mut least = 0;
        for number in self.live.order.base()..self.live.order.len() {
            let bytes = self.bytes(number);
            if bytes < least {
                continue;
            }
            let entry = Reverse((bytes, Reverse(self.live.order.id(number)), number));
            if heap.len() >= limit && heap.peek().is_none_or(|last| entry >= *last) {
                continue;
            }
            if self.kind(number).is_some_and(|kind| pick(number, kind)) {
                heap.push(entry);
                if heap.len() > limit {
                    heap.pop();
                }
                if heap.len() == limit {
                    least = heap.peek().map_or(0, |Reverse((bytes, ..))| *bytes);
                }
            }
        }
        heap.into_sorted_vec().into_iter().map(|Reverse((.., number))| number).collect()
    }

    /// Selects the objects of some types that no other object of these types dominates. Returns a test for numbers.
    pub fn outermost(&self, pick: impl Fn(TypeIndex) -> bool) -> impl Fn(u32) -> bool {
        let words = self.live.len() / 64 + 1;
        let (mut covered, mut out) = (vec![0_u64; words], vec![0_u64; words]);
        for (number, up) in self.dominators() {
            if has_bit(&covered, up) || has_bit(&out, up) {
                set_bit(&mut covered, number);
            } else if self.kind(number).is_some_and(&pick) {
                set_bit(&mut out, number);
            }
        }
        move |number| has_bit(&out, number)
    }

    /// Bytes that the objects `numbers` retain in total. What one of them retains of another counts once.
    pub fn bytes_of_all(&self, numbers: &[u32]) -> u64 {
        let words = self.live.len() / 64 + 1;
        let (mut asked, mut covered) = (vec![0_u64; words], vec![0_u64; words]);
        numbers.iter().filter(|&&number| (number as usize) < self.live.len()).for_each(|&n| set_bit(&mut asked, n));
        let mut sum = 0_u64;
        for (number, up) in self.dominators() {
            if has_bit(&covered, up) || has_bit(&asked, up) {
                set_bit(&mut covered, number);
            } else if has_bit(&asked, number) {
                sum = sum.saturating_add(self.bytes(number));
            }
        }
        sum
    }

    /// Sums by type of `within` and all that it dominates. For 0, of all live objects.
    pub fn types(&self, within: u32) -> Vec<TypeSum> {
        let known = |(number, up)| DominatorRow {
            number,
            dominator: up,
            kind: self.kind(number),
            dominator_kind: self.kind(up),
        };
        let bytes = |number| self.bytes(number);
        let found =
            |budget: &MemoryBudget| type_sums(|| self.dominators().map(known), bytes, self.live.len(), within, budget);
        match found(&self.budget) {
            // Whoever set the limit drops the result.
            Err(SumsError::Error(GraphError::OutOfTime)) => Vec::new(),
            // A full disk is no reason to fail: use memory instead.
            Err(SumsError::Error(_)) => {
                found(&MemoryBudget::unbounded()).unwrap_or_else(|_| self.types_by_walk(within))
            }
            Err(SumsError::TooManySets) => self.types_by_walk(within),
            Ok(sums) => sums,
        }
    }

    /// Like [`Retained::types`], by a walk of the dominator tree. It waits for memory at each object.
    fn types_by_walk(&self, within: u32) -> Vec<TypeSum> {
        let len = self.live.len();
        let (mut first, mut next) = (vec![0_u32; len], vec![0_u32; len]);
        for (number, up) in self.dominators() {
            if let Some(first) = first.get_mut(up as usize)
                && let Some(next) = next.get_mut(number as usize)
            {
                *next = std::mem::replace(first, number);
            }
        }
        let mut sums: Vec<(Tally, u64, u64)> = Vec::new();
        let mut at = within;
        loop {
            self.enter(at, within, &mut sums);
            // To the first child, else to the sibling, else up to an ancestor with a sibling.
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

    /// Counts an object. `sums` has by type: own size, bytes retained, and how many objects of the type are on the path
    /// from `within` to the current object.
    fn enter(&self, at: u32, within: u32, sums: &mut Vec<(Tally, u64, u64)>) {
        let bytes = self.bytes(at);
        // An object's own size is what it retains minus what its children in the dominator tree retain.
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

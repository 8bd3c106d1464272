//! The reduced graph for the search for dominators: objects with several referrers, and the branching objects between
//! these and the roots.
//!
//! A chain of objects in which each leads only to the next is one vertex, represented by its last object. If any object
//! of the chain dominates what follows, the last one is the immediate dominator.

use crate::runtimes::graph::RootNode;
use crate::runtimes::graph::adjacency::{Adjacency, RefList, STRAY};
use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};
use crate::runtimes::graph::rank_select::RankedBits;
use crate::runtimes::graph::root_bfs::{Reached, has_bit, set_bit};
use crate::runtimes::graph::segmented_vec::SegmentedVec;
use crate::runtimes::graph::visit_states::{SHARED, VisitStates};

/// Vertices, and the edges between them. Vertex 0 is the virtual root.
pub(super) struct ReducedGraph {
    /// Number in the graph, by vertex.
    pub(super) numbers: Table<u32>,
    /// One bit per vertex: whether its object has several referrers.
    pub(super) shared: Vec<u64>,
    /// End index in `to` of each vertex's edges. The next vertex's edges start there.
    ends: Table<u32>,
    to: Table<u32>,
}

/// References to objects with several referrers.
struct SharedRefs {
    /// Numbers of the objects that contain such references.
    holders: SegmentedVec<u32>,
    /// End index in `targets` of each holder's references.
    ends: SegmentedVec<u32>,
    /// Targets as ranks among the objects with several referrers, in address order. [`NONE`] for a reference to ignore.
    targets: SegmentedVec<u32>,
    /// References from roots to such objects: number of the root kind, and rank of the target.
    from_roots: Vec<(u32, u32)>,
}

impl ReducedGraph {
    /// Successors of `vertex`.
    #[inline(always)]
    pub(super) fn successors(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        let start = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&e| e as usize);
        let end = self.ends.get(at).map_or(0, |&e| e as usize);
        self.to.get(start..end).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn edges(&self) -> usize {
        self.to.len()
    }

    /// Builds the reduced graph. `shared`: numbers of the objects with several referrers.
    pub(super) fn build(
        adjacency: Adjacency,
        states: &VisitStates,
        root_nodes: &[RootNode],
        reached: &Reached,
        shared: &RankedBits,
        budget: &MemoryBudget,
    ) -> Result<ReducedGraph, GraphError> {
        let order = &reached.order;
        let by_id = states.set_of(SHARED);
        let mut refs = SharedRefs::find(&adjacency, states, root_nodes, reached, shared, &by_id, budget)?;
        drop(adjacency);
        let (needed, kept) = vertices(reached, shared, &refs, budget)?;
        let count = kept.count() as usize;
        let tree = tree_parents(reached, shared, &needed, &kept, budget)?;
        drop(needed);
        let mut of_shared: Table<u32> = budget.table(by_id.count() as usize)?;
        for (vertex, number) in (0..).zip(kept.positions()) {
            if shared.has(number)
                && let Some(place) = order.id(number).and_then(|id| of_shared.get_mut(by_id.rank(id) as usize))
            {
                *place = vertex;
            }
        }
        drop(by_id);
        // From here on only vertices are used. Tables by number are freed before the edges, which are the largest, are
        // stored.
        refs.replace_by_vertices(&kept, &of_shared);
        drop(of_shared);
        // Count the edges of each vertex, then compute where they start.
        let mut ends: Table<u32> = budget.table(count)?;
        for &parent in tree.iter().filter(|&&parent| parent != NONE) {
            add_at(&mut ends, parent, 1);
        }
        refs.each(|from, _| add_at(&mut ends, from, 1));
        let mut sum = 0_u64;
        for end in ends.iter_mut() {
            let count = std::mem::replace(end, sum as u32);
            sum += u64::from(count);
        }
        u32::try_from(sum).map_err(|_| GraphError::TooMany)?;
        let mut to: Table<u32> = budget.table(sum as usize)?;
        let mut put = |from: u32, vertex: u32| {
            if let Some(end) = ends.get_mut(from as usize) {
                if let Some(place) = to.get_mut(*end as usize) {
                    *place = vertex;
                }
                *end += 1;
            }
        };
        refs.each(&mut put);
        drop(refs);
        for (vertex, &parent) in (0..).zip(tree.iter()) {
            if parent != NONE {
                put(parent, vertex);
            }
        }
        drop(tree);
        let mut numbers: Table<u32> = budget.table(count)?;
        numbers.iter_mut().zip(kept.positions()).for_each(|(place, number)| *place = number);
        let mut shared_vertices = vec![0; count / 64 + 1];
        for (vertex, &number) in (0..).zip(numbers.iter()) {
            if shared.has(number) {
                set_bit(&mut shared_vertices, vertex);
            }
        }
        Ok(ReducedGraph { numbers, shared: shared_vertices, ends, to })
    }
}

/// Number of chunks that are scanned before their results are merged.
const AT_ONCE: usize = 64;

/// Represents the absence of a vertex, or of a reference.
const NONE: u32 = u32::MAX;

fn add_at(counts: &mut [u32], at: u32, more: u32) {
    if let Some(count) = counts.get_mut(at as usize) {
        *count = count.wrapping_add(more);
    }
}

impl SharedRefs {
    /// Finds the references in address order, which does not wait for memory. Afterwards converts the IDs of the
    /// holders to numbers.
    fn find(
        adjacency: &Adjacency,
        states: &VisitStates,
        root_nodes: &[RootNode],
        reached: &Reached,
        shared: &RankedBits,
        by_id: &RankedBits,
        budget: &MemoryBudget,
    ) -> Result<SharedRefs, GraphError> {
        let order = &reached.order;
        let of_chunk = |out: &mut (Vec<(u32, u32)>, Vec<u32>), id: u32, row: RefList<'_>| {
            let before = out.1.len();
            let is_shared = |&to: &u32| to != STRAY && to != id && states.get(to) == SHARED;
            out.1.extend(row.iter().filter(is_shared).map(|to| by_id.rank(to)));
            if out.1.len() > before {
                if states.is_visited(id) {
                    out.0.push((id, (out.1.len() - before) as u32))
                } else {
                    out.1.truncate(before)
                }
            }
        };
        let mut bits = vec![0_u64; by_id.words()];
        let mut holders = SegmentedVec::new(budget);
        let (mut ends, mut targets) = (SegmentedVec::new(budget), SegmentedVec::new(budget));
        let mut end = 0_u32;
        for first in (0..adjacency.chunks()).step_by(AT_ONCE) {
            budget.in_time()?;
            for (of_chunk, to) in adjacency.each_list(first..(first + AT_ONCE).min(adjacency.chunks()), of_chunk) {
                targets.extend(to)?;
                for (id, count) in of_chunk {
                    set_bit(&mut bits, id);
                    end = end.checked_add(count).ok_or(GraphError::TooMany)?;
                    ends.push(end)?;
                    holders.push(0)?;
                }
            }
        }
        let holding = RankedBits::new(bits);
        order.numbers_in(&holding, |id, number| {
            if let Some(place) = holders.get_mut(holding.rank(id) as usize) {
                *place = number;
            }
        });
        // A reference back to the parent, from an object with one referrer, does not affect dominators.
        let mut cursor = order.cursor();
        let mut start = 0;
        for rank in 0..holders.len() {
            budget.in_time_at(rank)?;
            let (number, end) = (holders.get(rank).unwrap_or(0), ends.get(rank).unwrap_or(0) as usize);
            if has_bit(&reached.back_refs, number)
                && !shared.has(number)
                && let Some(parent) = order.id(cursor.parent(number)).filter(|&parent| states.get(parent) == SHARED)
            {
                let parent = by_id.rank(parent);
                for at in start..end {
                    if let Some(to) = targets.get_mut(at).filter(|to| **to == parent) {
                        *to = NONE;
                    }
                }
            }
            start = end;
        }
        let mut of_roots = Vec::new();
        for source in root_nodes {
            let held = source.entries.iter().filter(|&&id| states.get(id) == SHARED);
            of_roots.extend(held.map(|&id| (source.number, by_id.rank(id))));
        }
        Ok(SharedRefs { holders, ends, targets, from_roots: of_roots })
    }

    /// Replaces numbers and ranks by vertices. `vertices` is the set of vertices' numbers, and `by_rank` has a vertex
    /// for each rank.
    fn replace_by_vertices(&mut self, vertices: &RankedBits, by_rank: &[u32]) {
        let vertex = |rank: u32| by_rank.get(rank as usize).copied().unwrap_or(0);
        self.from_roots
            .iter_mut()
            .for_each(|(number, rank)| (*number, *rank) = (vertices.rank(*number), vertex(*rank)));
        self.holders.map_in_place(|number| vertices.rank(number));
        self.targets.map_in_place(|rank| if rank == NONE { NONE } else { vertex(rank) });
    }

    /// Visits all references as number and rank. After `replace_by_vertices`, as vertices.
    fn each(&self, mut visit: impl FnMut(u32, u32)) {
        self.from_roots.iter().for_each(|&(number, rank)| visit(number, rank));
        let (mut targets, mut start) = (self.targets.iter(), 0);
        for (number, end) in self.holders.iter().zip(self.ends.iter()) {
            let own = targets.by_ref().take((end - start) as usize);
            own.filter(|&rank| rank != NONE).for_each(|rank| visit(number, rank));
            start = end;
        }
    }
}

/// Returns the numbers on paths to objects with several referrers, and those of them that are vertices.
fn vertices(
    reached: &Reached,
    shared: &RankedBits,
    refs: &SharedRefs,
    budget: &MemoryBudget,
) -> Result<(RankedBits, RankedBits), GraphError> {
    let order = &reached.order;
    let words = order.len() as usize / 64 + 1;
    let (mut needed, mut kept) = (vec![0_u64; words], vec![0_u64; words]);
    // Whether one needed child, or more than one, is reached only from the number.
    let (mut one, mut more) = (vec![0_u64; words], vec![0_u64; words]);
    set_bit(&mut needed, 0);
    refs.each(|number, _| {
        set_bit(&mut needed, number);
        // A holder of such references is not part of a chain.
        set_bit(&mut more, number);
    });
    let mut cursor = order.cursor();
    for at in (0..words).rev() {
        budget.in_time_at(at)?;
        // Processing a number may add lower numbers to the same word.
        let mut done = 0_u64;
        loop {
            let bits = shared.word(at) | needed.get(at).copied().unwrap_or(0);
            let left = bits & !done;
            if left == 0 {
                break;
            }
            let bit = 63 - left.leading_zeros();
            done |= u64::MAX << bit;
            let number = at as u32 * 64 + bit;
            if number == 0 {
                break;
            }
            let shares = shared.has(number);
            if shares {
                set_bit(&mut needed, number);
            } else {
                let parent = cursor.parent(number);
                set_bit(&mut needed, parent);
                if has_bit(&one, parent) {
                    set_bit(&mut more, parent);
                }
                set_bit(&mut one, parent);
            }
            let link = !shares && number >= order.base() && has_bit(&one, number) && !has_bit(&more, number);
            if !link {
                set_bit(&mut kept, number);
            }
        }
    }
    set_bit(&mut kept, 0);
    Ok((RankedBits::new(needed), RankedBits::new(kept)))
}

/// The vertex that alone leads to each vertex. [`NONE`] if its object has several referrers.
fn tree_parents(
    reached: &Reached,
    shared: &RankedBits,
    needed: &RankedBits,
    kept: &RankedBits,
    budget: &MemoryBudget,
) -> Result<Table<u32>, GraphError> {
    let mut tree: Table<u32> = budget.table(kept.count() as usize)?;
    // By rank among the needed numbers: the number's own vertex, else the nearest one above.
    let mut nearest: Table<u32> = budget.table(needed.count() as usize)?;
    let (mut vertex, mut rank) = (1_u32, 1_usize);
    if let Some(first) = tree.first_mut() {
        *first = NONE;
    }
    let mut cursor = reached.order.cursor();
    let mut next = needed.next(1);
    while let Some(number) = next {
        budget.in_time_at(rank)?;
        next = needed.next(number + 1);
        let mut above = NONE;
        if !shared.has(number) {
            let parent = cursor.parent(number);
            above = nearest.get(needed.rank(parent) as usize).copied().unwrap_or(0);
        }
        let own = if kept.has(number) {
            if let Some(up) = tree.get_mut(vertex as usize) {
                *up = above;
            }
            vertex += 1;
            vertex - 1
        } else {
            above
        };
        if let Some(place) = nearest.get_mut(rank) {
            *place = own;
        }
        rank += 1;
    }
    Ok(tree)
}

//! Dominators of a graph that is given as lists of successors, like the graph of native blocks.
//!
//! Memory in bytes: 4 per vertex and per edge. The search takes up to 24 more per vertex and 4 more per edge.

use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};
use crate::runtimes::graph::semi_nca;
use crate::runtimes::graph::shared_dominators::Edges;

/// A graph. Vertex 0 is the root.
#[derive(Debug, Default)]
pub(crate) struct PlainGraph {
    /// End index in `to` of each vertex's successors. The next vertex's successors start there.
    ends: Vec<u32>,
    /// Successors of all vertices.
    to: Vec<u32>,
}

/// The dominator tree of the vertices that the root reaches.
pub(crate) struct PlainDominators {
    /// Vertices in preorder of a depth-first search, the root first.
    pub(crate) order: Vec<u32>,
    /// Index in `order` of each vertex's immediate dominator. It is lower than the vertex's own index. The root's is 0.
    dominators: Table<u32>,
}

impl PlainDominators {
    /// Index in `order` of the immediate dominator of the vertex at index `at`.
    pub(crate) fn of(&self, at: usize) -> usize {
        self.dominators.get(at).map_or(0, |up| *up as usize)
    }
}

/// The vertices below each vertex of a tree.
pub(crate) struct Below(Edges);

impl Below {
    /// Inverts `up`, the vertex above each one. The first vertex is the root.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(crate) fn of(up: &[u32], budget: &MemoryBudget) -> Result<Below, GraphError> {
        let edges = || (0..).zip(up).skip(1).map(|(vertex, up)| (vertex, *up));
        Ok(Below(Edges::by_target(up.len(), edges, budget)?))
    }

    /// The vertices below `vertex`, ascending.
    pub(crate) fn at(&self, vertex: usize) -> &[u32] {
        self.0.referrers(vertex as u32)
    }
}

const UNSEEN: u32 = u32::MAX;

impl PlainGraph {
    /// Adds the next vertex with its successors. Successors beyond 2³² are left out.
    pub(crate) fn add(&mut self, successors: impl IntoIterator<Item = u32>) {
        self.to.extend(successors);
        self.ends.push(u32::try_from(self.to.len()).unwrap_or(u32::MAX));
    }

    fn successors(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        let from = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |end| *end as usize);
        self.to.get(from..self.ends.get(at).map_or(from, |end| *end as usize)).unwrap_or_default()
    }

    /// Finds the dominators.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(crate) fn dominators(&self, budget: &MemoryBudget) -> Result<PlainDominators, GraphError> {
        let mut numbers: Table<u32> = budget.table(self.ends.len())?;
        numbers.fill(UNSEEN);
        let (mut order, mut parents): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        // Numbers of vertices that have more edges, each with the index of the next one. So a list needs no stack.
        let mut stack: Vec<(u32, u32)> = Vec::new();
        let mut next = Some((0, 0));
        loop {
            if let Some((vertex, parent)) = next.take()
                && let Some(number) = numbers.get_mut(vertex as usize).filter(|number| **number == UNSEEN)
            {
                budget.in_time_at(order.len())?;
                *number = order.len() as u32;
                stack.push((*number, 0));
                order.push(vertex);
                parents.push(parent);
            }
            let Some((number, edge)) = stack.pop() else { break };
            let successors = order.get(number as usize).map_or(&[][..], |vertex| self.successors(*vertex));
            if let Some((&to, later)) = successors.get(edge as usize..).and_then(<[u32]>::split_first) {
                if !later.is_empty() {
                    stack.push((number, edge.saturating_add(1)));
                }
                next = Some((to, number));
            }
        }
        drop(stack);
        let others = self.others(&order, &parents, &numbers, budget)?;
        drop(numbers);
        let mut tree: Table<u32> = budget.table(parents.len())?;
        tree.copy_from_slice(&parents);
        drop(parents);
        Ok(PlainDominators { order, dominators: semi_nca::dominators(tree, others, budget)? })
    }

    /// Edges outside of the search tree, by the number of their target.
    fn others(
        &self,
        order: &[u32],
        parents: &[u32],
        numbers: &[u32],
        budget: &MemoryBudget,
    ) -> Result<Edges, GraphError> {
        let of = |(from, &vertex): (u32, &u32)| {
            let numbers = self.successors(vertex).iter().filter_map(|to| numbers.get(*to as usize).copied());
            // A second edge from the parent changes nothing either.
            numbers.filter(move |to| parents.get(*to as usize) != Some(&from)).map(move |to| (from, to))
        };
        Edges::by_target(order.len(), || (0..).zip(order).flat_map(of), budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vertex_is_below_the_one_above_it() -> Result<(), GraphError> {
        let below = Below::of(&[0, 0, 1, 1, 0, 4], &MemoryBudget::unbounded())?;
        let all: Vec<&[u32]> = (0..6).map(|vertex| below.at(vertex)).collect();
        assert_eq!(all, [&[1, 4][..], &[2, 3], &[], &[], &[5], &[]]);
        Ok(())
    }

    #[test]
    fn dominators_of_a_diamond_a_ring_and_what_is_not_reached() -> Result<(), GraphError> {
        // 0 → 1, 2; both → 3; 3 → 4 → 5 → 3; 6 → 3 is not reached.
        let graph = PlainGraph { ends: vec![2, 3, 4, 5, 6, 7, 8], to: vec![1, 2, 3, 3, 4, 5, 3, 3] };
        let found = graph.dominators(&MemoryBudget::unbounded())?;
        let mut pairs: Vec<(u32, u32)> =
            found.order.iter().enumerate().map(|(at, vertex)| (*vertex, found.order[found.of(at)])).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 3), (5, 4)]);
        // A list of 100,000 is no recursion.
        let long = PlainGraph { ends: (1..=100_000).collect(), to: (1..=100_000).collect() };
        assert_eq!(long.dominators(&MemoryBudget::unbounded())?.order.len(), 100_000);
        Ok(())
    }
}

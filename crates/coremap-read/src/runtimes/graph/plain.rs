//! Dominators of a graph that is given as lists of successors, such as that of native blocks.

use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};
use crate::runtimes::graph::semi_nca;
use crate::runtimes::graph::shared_dominators::Edges;

/// A graph. Vertex 0 is the root.
#[derive(Debug, Default)]
pub(crate) struct PlainGraph {
    /// End index in `to` of each vertex's successors. The next vertex's successors start there.
    pub(crate) ends: Vec<u32>,
    pub(crate) to: Vec<u32>,
}

/// The dominator tree of the vertices that the root reaches.
pub(crate) struct PlainDominators {
    /// Vertices in preorder of a depth-first search, the root first.
    pub(crate) order: Vec<u32>,
    /// Index in `order` of the immediate dominator of each of them. It is lower than the vertex's own; the root's is 0.
    dominators: Table<u32>,
}

impl PlainDominators {
    /// Index in `order` of the immediate dominator of the vertex at index `at`.
    pub(crate) fn of(&self, at: usize) -> usize {
        self.dominators.get(at).map_or(0, |up| *up as usize)
    }
}

const UNSEEN: u32 = u32::MAX;

impl PlainGraph {
    pub(crate) fn successors(&self, vertex: u32) -> &[u32] {
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
        let (mut order, mut parents) = (Vec::new(), Vec::new());
        // Vertex, its number, and the index of its next edge.
        let mut stack: Vec<(u32, u32, usize)> = Vec::new();
        let mut next = Some((0, 0));
        loop {
            if let Some((vertex, parent)) = next.take()
                && let Some(number) = numbers.get_mut(vertex as usize).filter(|number| **number == UNSEEN)
            {
                budget.in_time_at(order.len())?;
                *number = order.len() as u32;
                stack.push((vertex, *number, 0));
                order.push(vertex);
                parents.push(parent);
            }
            let Some((vertex, number, edge)) = stack.last_mut() else { break };
            match self.successors(*vertex).get(*edge) {
                Some(&to) => {
                    *edge = edge.saturating_add(1);
                    next = Some((to, *number));
                }
                None => drop(stack.pop()),
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
        let mut ends: Table<u32> = budget.table(order.len())?;
        let each = |visit: &mut dyn FnMut(u32, usize)| {
            for (from, &vertex) in (0..).zip(order) {
                for to in self.successors(vertex).iter().filter_map(|to| Some(*numbers.get(*to as usize)? as usize)) {
                    // A second edge from the parent changes nothing either.
                    if parents.get(to) != Some(&from) {
                        visit(from, to);
                    }
                }
            }
        };
        each(&mut |_, to| {
            if let Some(end) = ends.get_mut(to) {
                *end = end.saturating_add(1);
            }
        });
        let mut sum = 0_u32;
        for end in ends.iter_mut() {
            let count = std::mem::replace(end, sum);
            sum = sum.saturating_add(count);
        }
        let mut from: Table<u32> = budget.table(sum as usize)?;
        // The start of each row moves up to its end.
        each(&mut |source, to| {
            if let Some(end) = ends.get_mut(to) {
                if let Some(place) = from.get_mut(*end as usize) {
                    *place = source;
                }
                *end = end.saturating_add(1);
            }
        });
        Ok(Edges::raw(ends, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

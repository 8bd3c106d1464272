//! Dominators of the objects that have several referrers.

use crate::runtimes::graph::RootNode;
use crate::runtimes::graph::adjacency::Adjacency;
use crate::runtimes::graph::budget::{Charge, GraphError, MemoryBudget, Table};
use crate::runtimes::graph::rank_select::RankedBits;
use crate::runtimes::graph::reduced_graph::ReducedGraph;
use crate::runtimes::graph::root_bfs::{Reached, has_bit, set_bit};
use crate::runtimes::graph::semi_nca;
use crate::runtimes::graph::shared_objects::shared_objects;
use crate::runtimes::graph::visit_states::VisitStates;
use crate::runtimes::graph::work::step;

/// Referrers of each number, without its parent in the depth-first tree.
pub(super) struct Edges {
    /// End index in `from` of each number's referrers. The next number's referrers start there.
    ends: Table<u32>,
    from: Table<u32>,
}

impl Edges {
    #[cfg(test)]
    pub(super) fn raw(ends: Table<u32>, from: Table<u32>) -> Edges {
        Edges { ends, from }
    }

    /// Sorts edges, each with its source and its target, by the target. Targets are below `len`. `edges` is called
    /// twice.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn by_target<I: Iterator<Item = (u32, u32)>>(
        len: usize,
        edges: impl Fn() -> I,
        budget: &MemoryBudget,
    ) -> Result<Edges, GraphError> {
        let mut ends: Table<u32> = budget.table(len)?;
        edges().for_each(|(_, to)| {
            if let Some(end) = ends.get_mut(to as usize) {
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
        edges().for_each(|(source, to)| {
            if let Some(end) = ends.get_mut(to as usize) {
                if let Some(place) = from.get_mut(*end as usize) {
                    *place = source;
                }
                *end = end.saturating_add(1);
            }
        });
        Ok(Edges { ends, from })
    }

    /// Copies the edges into tables made by `table`.
    #[cfg(test)]
    pub(super) fn copy(&self, table: impl Fn(&[u32]) -> Table<u32>) -> Edges {
        Edges { ends: table(&self.ends), from: table(&self.from) }
    }

    /// Referrers of `number`.
    #[inline(always)]
    pub(super) fn referrers(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&e| e as usize);
        let end = self.ends.get(at).map_or(0, |&e| e as usize);
        self.from.get(start..end).unwrap_or_default()
    }

    /// Stores `instead` in the table slot that ends this number's referrers. The referrers of this number and of all
    /// higher ones must not be read afterwards.
    #[inline(always)]
    pub(super) fn replace_end(&mut self, number: u32, instead: u32) {
        if let Some(end) = self.ends.get_mut(number as usize) {
            *end = instead;
        }
    }

    /// The stored values, by number.
    pub(super) fn into_ends(self) -> Table<u32> {
        self.ends
    }
}

/// Immediate dominators of numbers whose dominator is not their parent on the shortest path.
pub(super) struct SharedDominators {
    /// The numbers of the objects with several referrers.
    pub(super) shared: RankedBits,
    /// The immediate dominator of each of them, in their order.
    dominators: Table<u32>,
    _charge: Charge,
}

impl SharedDominators {
    /// Finds the dominators. `None` if no object has several referrers.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn find(
        adjacency: Adjacency,
        states: &VisitStates,
        root_nodes: &[RootNode],
        reached: &Reached,
        budget: &MemoryBudget,
    ) -> Result<Option<SharedDominators>, GraphError> {
        let Some(shared) = shared_objects(reached, states) else { return Ok(None) };
        let charge = budget.charge(shared.bytes());
        let graph = ReducedGraph::build(adjacency, states, root_nodes, reached, &shared, budget)?;
        let (vertices, edges) = (graph.len(), graph.edges());
        // Peak memory: six numbers per vertex, and each edge in both directions.
        let bytes = 4 * (6 * vertices + 2 * edges);
        tracing::debug!(vertices, edges, bytes, left = budget.left(), "dominators are searched for");
        let search = DepthFirst::run(&graph, budget)?;
        let edges = search.edges(&graph, budget)?;
        let (numbers, is_shared, parents) = search.into_numbers(graph);
        let found = semi_nca::dominators(parents, edges, budget)?;
        let mut dominators: Table<u32> = budget.table(shared.count() as usize)?;
        for (at, (&number, &up)) in (0..).zip(numbers.iter().zip(found.iter())) {
            if has_bit(&is_shared, at)
                && let Some(place) = dominators.get_mut(shared.rank(number) as usize)
            {
                *place = numbers.get(up as usize).copied().unwrap_or(0);
            }
        }
        Ok(Some(SharedDominators { shared, dominators, _charge: charge }))
    }

    /// The immediate dominator of `number`, if its object has several referrers. `None` otherwise.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<u32> {
        if !self.shared.has(number) {
            return None;
        }
        self.dominators.get(self.shared.rank(number) as usize).copied()
    }
}

/// A depth-first search, which numbers the vertices in preorder.
struct DepthFirst {
    /// Vertex, by preorder number. 0 is the virtual root.
    vertices: Table<u32>,
    /// Parent in the search tree, by preorder number.
    parents: Table<u32>,
    /// Preorder number, by vertex.
    numbers: Table<u32>,
    visited: u32,
}

/// A vertex on the stack. `place` is the index of its next edge.
struct Frame {
    vertex: u32,
    number: u32,
    next_edge: u32,
}

impl DepthFirst {
    fn run(graph: &ReducedGraph, budget: &MemoryBudget) -> Result<DepthFirst, GraphError> {
        let len = graph.len();
        let mut search = DepthFirst {
            vertices: budget.table(len)?,
            parents: budget.table(len)?,
            numbers: budget.table(len)?,
            visited: 0,
        };
        let mut seen = vec![0_u64; len / 64 + 1];
        let mut stack = vec![Frame { vertex: 0, number: search.number(0, 0, &mut seen), next_edge: 0 }];
        // A vertex stays on the stack only if it has more than one unvisited successor. So lists of any length need no
        // stack if each node leads only to the next one.
        while let Some(mut at) = stack.pop() {
            loop {
                budget.in_time_at(search.visited as usize)?;
                let (mut child, mut more) = (None, None);
                step(1);
                for (place, &to) in graph.successors(at.vertex).iter().enumerate().skip(at.next_edge as usize) {
                    step(1);
                    if has_bit(&seen, to) {
                        continue;
                    }
                    match child {
                        None => child = Some(to),
                        Some(first) if first == to => {}
                        Some(_) => {
                            more = Some(place as u32);
                            break;
                        }
                    }
                }
                let Some(vertex) = child else { break };
                let number = search.number(vertex, at.number, &mut seen);
                if let Some(place) = more {
                    stack.push(Frame { next_edge: place, ..at });
                }
                at = Frame { vertex, number, next_edge: 0 };
            }
        }
        Ok(search)
    }

    /// Assigns the next preorder number to `vertex`.
    fn number(&mut self, vertex: u32, parent: u32, seen: &mut [u64]) -> u32 {
        let number = self.visited;
        self.visited += 1;
        if let (Some(own), Some(up), Some(of)) = (
            self.vertices.get_mut(number as usize),
            self.parents.get_mut(number as usize),
            self.numbers.get_mut(vertex as usize),
        ) {
            (*own, *up, *of) = (vertex, parent, number);
        }
        set_bit(seen, vertex);
        number
    }

    /// By preorder number: the number in the graph, whether the object has several referrers, and the parent.
    fn into_numbers(self, graph: ReducedGraph) -> (Table<u32>, Vec<u64>, Table<u32>) {
        let DepthFirst { mut vertices, parents, visited: met, .. } = self;
        let mut is_shared = vec![0_u64; vertices.len() / 64 + 1];
        for (at, place) in (0..met).zip(vertices.iter_mut()) {
            if has_bit(&graph.shared, *place) {
                set_bit(&mut is_shared, at);
            }
            *place = graph.numbers.get(*place as usize).copied().unwrap_or(0);
        }
        (vertices, is_shared, parents)
    }

    /// Referrers of objects with several referrers, by preorder number, without the edges of the search tree.
    fn edges(&self, graph: &ReducedGraph, budget: &MemoryBudget) -> Result<Edges, GraphError> {
        let of = |(v, &vertex): (u32, &u32)| {
            let shared = graph.successors(vertex).iter().filter(|&&to| has_bit(&graph.shared, to));
            let numbers = shared.map(|&to| self.numbers.get(to as usize).copied().unwrap_or(0));
            numbers.filter(move |&to| self.parents.get(to as usize) != Some(&v)).map(move |to| (v, to))
        };
        let edges = || (0..).zip(self.vertices.iter().take(self.visited as usize)).flat_map(of);
        Edges::by_target(graph.len(), edges, budget)
    }
}

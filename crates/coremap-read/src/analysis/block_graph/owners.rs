//! Dominators: which block or root retains which blocks. Data takes precedence over stacks, pointers to starts over
//! inner ones, and a container over other words that point at its nodes.
//!
//! There are five linear passes over all words. Four mark what roots reach by words of different strength. The last
//! finds the dominators. Memory: at most three tables of 4 bytes and three of one byte per block, besides the tables of
//! the dominator search.

use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::containers::{Container, Prover};
use crate::analysis::block_graph::edges::Lead;
use crate::analysis::block_graph::lost::{self, Head};
use crate::analysis::block_graph::roots::{RootGroup, RootWord};
use crate::runtimes::graph::{Below, GraphError, MemoryBudget, PlainGraph};

/// Minimum number of nodes of a container that owns its nodes.
const OWNED: usize = 64;

/// Marks a block that is in no container.
pub(super) const NOBODY: u32 = u32::MAX;

/// A vertex of the dominator tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vertex {
    Root,
    Block(u32),
    Group(u32),
    Lost,
}

/// The dominator tree.
pub(super) struct Owners {
    blocks: u32,
    groups: u32,
    /// Vertices in preorder.
    order: Vec<u32>,
    /// Index in `order` of each vertex's dominator.
    up: Vec<u32>,
    /// Groups of blocks that no root reaches.
    pub(super) heads: Vec<Head>,
    /// The first group that reached each block by strong words. `u32::MAX`: none.
    pub(super) first: Vec<u32>,
    /// Nodes of containers.
    pub(super) containers: Contained,
}

impl Owners {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the vertex at an index of the preorder, and the index of its dominator.
    pub(super) fn at(&self, index: usize) -> (Vertex, usize) {
        let vertex = self.order.get(index).copied().unwrap_or(0);
        (self.vertex(vertex), self.up.get(index).map_or(0, |up| *up as usize))
    }

    /// Returns the vertices below each vertex, by index of the preorder.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn below(&self, budget: &MemoryBudget) -> Result<Below, GraphError> {
        Below::of(&self.up, budget)
    }

    fn vertex(&self, number: u32) -> Vertex {
        match number.checked_sub(1) {
            None => Vertex::Root,
            Some(block) if block < self.blocks => Vertex::Block(block),
            Some(other) if other.saturating_sub(self.blocks) < self.groups => Vertex::Group(other - self.blocks),
            Some(_) => Vertex::Lost,
        }
    }

    /// Finds the holder of each block.
    ///
    /// # Errors
    /// [`GraphError`]
    pub(super) fn find(
        graph: &BlockGraph<'_>,
        prover: &Prover<'_>,
        groups: &[RootGroup],
        is_typed: &dyn Fn(u32) -> bool,
        budget: &MemoryBudget,
    ) -> Result<Owners, GraphError> {
        let steady = || (0..).zip(groups).filter(|(_, group)| !group.place.is_passing());
        let all = || (0..).zip(groups);
        let is_strong = |group: &RootGroup, word: &RootWord| word.lead != Lead::Weak || group.container.is_some();
        let strong = |lead: Lead| lead != Lead::Weak;
        let nobody = || vec![NOBODY; graph.len()];
        let has_group = |list: &[u32]| -> Vec<bool> { list.iter().map(|group| *group != NOBODY).collect() };
        let owned = {
            let mut owned = nobody();
            spread(graph, steady(), &is_strong, &|lead| lead == Lead::Start, &mut owned, budget)?;
            has_group(&owned)
        };
        let mut first = nobody();
        spread(graph, steady(), &is_strong, &strong, &mut first, budget)?;
        let by_data = has_group(&first);
        spread(graph, all(), &is_strong, &strong, &mut first, budget)?;
        // A block at which any word points is not lost.
        let lost: Vec<bool> = {
            let mut any = nobody();
            spread(graph, all(), &|_, _| true, &|_| true, &mut any, budget)?;
            any.iter().map(|group| *group == NOBODY).collect()
        };
        let (blocks, count) = (graph.len() as u32, groups.len() as u32);
        let containers = Contained::find(graph, prover, groups);
        let is = |list: &[bool], block: u32| list.get(block as usize).copied().unwrap_or(false);
        let has_first = |block: u32| first.get(block as usize).is_some_and(|group| *group != NOBODY);
        let owner = |block: u32| containers.owner(block);
        let heads = lost::heads(graph, &lost, is_typed, budget)?;
        let keep = |from: u32, to: u32, lead: Lead| {
            let is_pointer = match lead {
                _ if is(&lost, from) => is(&lost, to),
                Lead::Start => true,
                // If words point at the start of a block, only they retain it. Inner pointers only refer to it.
                Lead::Inner => !is(&owned, to),
                Lead::Weak => !has_first(to),
            };
            // A block that data reaches is not retained by blocks that only a stack reaches.
            let of_stack = is(&by_data, to) && !is(&by_data, from) && !is(&lost, from);
            is_pointer
                && !of_stack
                && from != to
                && (owner(to) == NOBODY || owner(to) == owner(from) || owner(to) == count.saturating_add(from))
        };
        let keeps = |number: u32, group: &RootGroup, word: &RootWord| {
            let is_pointer = match is_strong(group, word) {
                true => !group.place.is_passing() || !is(&by_data, word.to),
                false => !has_first(word.to),
            };
            is_pointer && (owner(word.to) == NOBODY || owner(word.to) == number)
        };
        let group_vertex = |group: u32| blocks.saturating_add(group).saturating_add(1);
        let lost_vertex = group_vertex(count);
        let mut plain = PlainGraph::default();
        // The root is connected to all groups, and to the vertex of lost blocks.
        plain.add((0..count).map(group_vertex).chain([lost_vertex]));
        for block in 0..blocks {
            let edges = graph.edges.of(block).filter(|(_, to, lead)| keep(block, *to, *lead));
            plain.add(edges.map(|(_, to, _)| to.saturating_add(1)));
        }
        for (number, group) in all() {
            let words = group.words.iter().filter(|word| keeps(number, group, word));
            plain.add(words.map(|word| word.to.saturating_add(1)));
        }
        plain.add(heads.iter().map(|head| head.block.saturating_add(1)));
        let tree = plain.dominators(budget)?;
        let up = (0..tree.order.len()).map(|at| tree.of(at) as u32).collect();
        Ok(Owners { blocks, groups: count, order: tree.order, up, heads, first, containers })
    }
}

/// Sets the first group that reaches each block, over words that both filters select. A block that has a group already
/// keeps it, and is not followed.
///
/// # Errors
/// [`GraphError::OutOfTime`]
fn spread<'g>(
    graph: &BlockGraph<'_>,
    groups: impl Iterator<Item = (u32, &'g RootGroup)>,
    of_root: &dyn Fn(&RootGroup, &RootWord) -> bool,
    of_block: &dyn Fn(Lead) -> bool,
    out: &mut [u32],
    budget: &MemoryBudget,
) -> Result<(), GraphError> {
    let mut stack: Vec<u32> = Vec::new();
    let mut followed = 0_usize;
    let take = |block: u32, group: u32, out: &mut [u32]| {
        let place = out.get_mut(block as usize).filter(|place| **place == NOBODY);
        place.map(|place| *place = group).is_some()
    };
    for (number, group) in groups {
        for word in group.words.iter().filter(|word| of_root(group, word)) {
            if take(word.to, number, out) {
                stack.push(word.to);
            }
        }
        while let Some(block) = stack.pop() {
            budget.in_time_at(followed)?;
            followed = followed.saturating_add(1);
            for (_, to, _) in graph.edges.of(block).filter(|(_, _, lead)| of_block(*lead)) {
                if take(to, number, out) {
                    stack.push(to);
                }
            }
        }
    }
    Ok(())
}

/// Maximum number of directly rooted blocks in which containers are searched, and maximum size of such a block in
/// bytes.
const HOLDERS: usize = 1024;
const HOLDER_BYTES: u64 = 1024;

/// Blocks that are nodes of containers. Other words that point at nodes, as in iterators, do not retain them.
pub(super) struct Contained {
    /// Index in `all` of each block's container.
    of: Vec<u32>,
    /// Containers, each with its owner: the index of a group, or the number of groups plus the index of a block.
    all: Vec<(u32, Container)>,
}

impl Contained {
    fn find(graph: &BlockGraph<'_>, prover: &Prover<'_>, groups: &[RootGroup]) -> Contained {
        let mut out = Contained { of: vec![NOBODY; graph.len()], all: Vec::new() };
        for (number, group) in (0..).zip(groups) {
            let Some(container) = &group.container else { continue };
            let nodes = prover.nodes(container);
            if nodes.len() >= OWNED {
                out.add(number, container, &nodes);
            }
        }
        let count = groups.len() as u32;
        let others = groups.iter().filter(|group| group.container.is_none());
        let words = others.flat_map(|group| &group.words).filter(|word| word.lead == Lead::Start);
        let mut holders: Vec<u32> =
            words.map(|word| word.to).filter(|block| graph.usable(*block) <= HOLDER_BYTES).take(HOLDERS).collect();
        holders.sort_unstable();
        holders.dedup();
        for holder in holders {
            let start = graph.start(holder);
            let found = (0..graph.usable(holder)).step_by(8).filter_map(|offset| prover.at(start.checked_add(offset)?));
            for container in found {
                let nodes = prover.nodes(&container);
                // One node of a container is not the holder of the other nodes.
                if nodes.len() >= OWNED && !nodes.contains(&holder) {
                    out.add(count.saturating_add(holder), &container, &nodes);
                }
            }
        }
        out
    }

    /// Sets the container of nodes that are in no other one.
    fn add(&mut self, owner: u32, container: &Container, nodes: &[u32]) {
        let index = u32::try_from(self.all.len()).unwrap_or(NOBODY);
        self.all.push((owner, container.clone()));
        for node in nodes {
            if let Some(place) = self.of.get_mut(*node as usize).filter(|place| **place == NOBODY) {
                *place = index;
            }
        }
    }

    fn at(&self, block: u32) -> Option<&(u32, Container)> {
        self.all.get(self.of.get(block as usize).copied()? as usize)
    }

    /// Returns the owner of a node. [`NOBODY`] if the block is no node.
    fn owner(&self, block: u32) -> u32 {
        self.at(block).map_or(NOBODY, |(owner, _)| *owner)
    }

    /// Returns the container in which a block is a node.
    pub(super) fn container(&self, block: u32) -> Option<&Container> {
        self.at(block).map(|(_, container)| container)
    }
}

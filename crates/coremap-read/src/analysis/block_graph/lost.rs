//! Blocks that no root reaches: trees with one block at the top, and cycles of blocks that only point at each other.

use crate::analysis::block_graph::BlockGraph;
use crate::runtimes::graph::{GraphError, MemoryBudget};

/// The first block of a lost group. No block outside of the group points at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) block: u32,
    /// Whether other blocks of the group point at it.
    pub(super) cycle: bool,
}

const NONE: u32 = u32::MAX;

/// Finds the groups: strongly connected blocks at which no other lost block points. `is_typed`: whether a block's class
/// is known. Such a block represents its cycle.
///
/// Linear in blocks and words. If any block is lost, this needs five tables of 4 bytes per block.
///
/// # Errors
/// [`GraphError::OutOfTime`]
pub(super) fn heads(
    graph: &BlockGraph<'_>,
    lost: &[bool],
    is_typed: &dyn Fn(u32) -> bool,
    budget: &MemoryBudget,
) -> Result<Vec<Head>, GraphError> {
    let components = Components::find(graph, lost, budget)?;
    let mut has_entry = vec![false; components.count as usize];
    let mut indegree: Vec<u32> = vec![0; if components.count == 0 { 0 } else { lost.len() }];
    let of = |block: u32| components.of.get(block as usize).copied().unwrap_or(NONE);
    let all = || (0..).zip(lost).filter(|(_, lost)| **lost).map(|(block, _): (u32, _)| block);
    for block in all() {
        for &to in graph.edges.targets(block).iter().filter(|to| **to != block) {
            if let Some(count) = indegree.get_mut(to as usize) {
                *count = count.saturating_add(1);
            }
            if of(to) != of(block)
                && let Some(entry) = has_entry.get_mut(of(to) as usize)
            {
                *entry = true;
            }
        }
    }
    let mut best: Vec<Option<Head>> = vec![None; components.count as usize];
    let rank = |block: u32| {
        let count = indegree.get(block as usize).copied().unwrap_or(0);
        (is_typed(block), count, graph.usable(block))
    };
    for block in all() {
        let component = of(block) as usize;
        if has_entry.get(component).copied().unwrap_or(true) {
            continue;
        }
        if let Some(place) = best.get_mut(component) {
            *place = Some(match *place {
                Some(head) if rank(head.block) >= rank(block) => Head { cycle: true, ..head },
                Some(_) => Head { block, cycle: true },
                None => Head { block, cycle: false },
            });
        }
    }
    Ok(best.into_iter().flatten().collect())
}

/// Strongly connected components of the lost blocks, by Tarjan's algorithm (Depth-First Search and Linear Graph
/// Algorithms, 1972).
struct Components {
    /// Component of each block. Empty if no block is lost.
    of: Vec<u32>,
    count: u32,
}

impl Components {
    fn find(graph: &BlockGraph<'_>, lost: &[bool], budget: &MemoryBudget) -> Result<Components, GraphError> {
        let mut out = Components { of: Vec::new(), count: 0 };
        if !lost.contains(&true) {
            return Ok(out);
        }
        out.of = vec![NONE; lost.len()];
        // Index of each block in the search, and the lowest index that it reaches. 0: not visited.
        let (mut numbers, mut lowest) = (vec![0_u32; lost.len()], vec![0_u32; lost.len()]);
        let mut next = 0_u32;
        let mut members: Vec<u32> = Vec::new();
        for first in (0..).zip(lost).filter(|(_, lost)| **lost).map(|(block, _): (u32, _)| block) {
            if numbers.get(first as usize) != Some(&0) {
                continue;
            }
            // Blocks on the search path, each with the index of its next word to follow.
            let mut stack: Vec<(u32, usize)> = Vec::new();
            let mut enter = Some(first);
            loop {
                if let Some(block) = enter.take() {
                    budget.in_time_at(next as usize)?;
                    next = next.saturating_add(1);
                    set(&mut numbers, block, next);
                    set(&mut lowest, block, next);
                    members.push(block);
                    stack.push((block, graph.edges.targets(block).len()));
                }
                let Some((block, left)) = stack.last_mut() else { break };
                let block = *block;
                if let Some(word) = left.checked_sub(1) {
                    *left = word;
                    let is_lost = |to: &u32| *to != block && lost.get(*to as usize).copied().unwrap_or(false);
                    let to = graph.edges.targets(block).get(word).copied().filter(is_lost);
                    let Some(to) = to else { continue };
                    match numbers.get(to as usize).copied().unwrap_or(NONE) {
                        0 => enter = Some(to),
                        // The block is in a component that is not complete yet.
                        number if out.of.get(to as usize) == Some(&NONE) => lower(&mut lowest, block, number),
                        _ => {}
                    }
                    continue;
                }
                stack.pop();
                let low = lowest.get(block as usize).copied().unwrap_or(0);
                if let Some((above, _)) = stack.last() {
                    lower(&mut lowest, *above, low);
                }
                if numbers.get(block as usize) == Some(&low) {
                    while let Some(member) = members.pop() {
                        set(&mut out.of, member, out.count);
                        if member == block {
                            break;
                        }
                    }
                    out.count = out.count.saturating_add(1);
                }
            }
        }
        Ok(out)
    }
}

fn set(list: &mut [u32], at: u32, value: u32) {
    if let Some(place) = list.get_mut(at as usize) {
        *place = value;
    }
}

fn lower(list: &mut [u32], at: u32, value: u32) {
    if let Some(place) = list.get_mut(at as usize) {
        *place = (*place).min(value);
    }
}

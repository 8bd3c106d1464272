//! Blocks that no root leads to: trees with one block at the top, and cycles of blocks that only lead to each other.

use crate::analysis::block_graph::BlockGraph;

/// The first block of a group that nothing leads to from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) block: u32,
    /// Whether other blocks of the group lead to it.
    pub(super) cycle: bool,
}

const NONE: u32 = u32::MAX;

/// Finds the groups: strongly connected blocks without a word to them from others that are lost, by Tarjan's algorithm.
/// `is_typed`: whether a block's class is known; such a block stands for its cycle.
pub(super) fn heads(graph: &BlockGraph<'_>, lost: &[bool], is_typed: &dyn Fn(u32) -> bool) -> Vec<Head> {
    let components = Components::find(graph, lost);
    let mut has_entry = vec![false; components.count as usize];
    let mut indegree: Vec<u32> = vec![0; if components.count == 0 { 0 } else { lost.len() }];
    let of = |block: u32| components.of.get(block as usize).copied().unwrap_or(NONE);
    let all = || (0..).zip(lost).filter(|(_, lost)| **lost).map(|(block, _): (u32, _)| block);
    for block in all() {
        for (_, to, _) in graph.edges.of(block).filter(|(_, to, _)| *to != block) {
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
    best.into_iter().flatten().collect()
}

/// Strongly connected components of the lost blocks.
struct Components {
    /// Component of each block.
    of: Vec<u32>,
    count: u32,
}

impl Components {
    fn find(graph: &BlockGraph<'_>, lost: &[bool]) -> Components {
        let mut out = Components { of: Vec::new(), count: 0 };
        if !lost.contains(&true) {
            return out;
        }
        out.of = vec![NONE; lost.len()];
        // Number in the order of the search, and lowest number that is reached. 0: not seen.
        let (mut numbers, mut lowest) = (vec![0_u32; lost.len()], vec![0_u32; lost.len()]);
        let mut next = 0_u32;
        let mut members: Vec<u32> = Vec::new();
        for first in (0..).zip(lost).filter(|(_, lost)| **lost).map(|(block, _): (u32, _)| block) {
            if numbers.get(first as usize) != Some(&0) {
                continue;
            }
            let mut stack: Vec<(u32, Vec<u32>)> = Vec::new();
            let mut enter = Some(first);
            loop {
                if let Some(block) = enter.take() {
                    next = next.saturating_add(1);
                    set(&mut numbers, block, next);
                    set(&mut lowest, block, next);
                    members.push(block);
                    let is_lost = |to: &u32| *to != block && lost.get(*to as usize).copied().unwrap_or(false);
                    stack.push((block, graph.edges.of(block).map(|(_, to, _)| to).filter(is_lost).collect()));
                }
                let Some((block, to)) = stack.last_mut() else { break };
                let block = *block;
                if let Some(to) = to.pop() {
                    match numbers.get(to as usize).copied().unwrap_or(NONE) {
                        0 => enter = Some(to),
                        // Still in a component that is not complete.
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
        out
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

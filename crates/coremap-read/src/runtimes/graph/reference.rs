//! Reachability and dominators computed straight from their definitions. Slow; the reference for tests.

use std::collections::VecDeque;

/// The vertices reachable from 0 without passing through `without`.
pub(super) fn reached(len: usize, edges: &[(u32, u32)], without: u32) -> Vec<bool> {
    let mut seen = vec![false; len];
    seen[0] = true;
    let mut stack = vec![0];
    while let Some(at) = stack.pop() {
        for &(_, to) in edges.iter().filter(|e| e.0 == at) {
            if to != without && !std::mem::replace(&mut seen[to as usize], true) {
                stack.push(to);
            }
        }
    }
    seen
}

/// Immediate dominators by definition: `v` dominates `w` if `w` is unreachable without `v`.
pub(super) fn naive(len: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let lost: Vec<Vec<bool>> = (1..len as u32).map(|v| reached(len, edges, v)).collect();
    let dominates = |v: usize, w: usize| v == 0 || v != w && !lost[v - 1][w];
    let mut out = vec![0];
    for w in 1..len {
        // The immediate dominator is the one that all other dominators dominate.
        let all: Vec<usize> = (0..len).filter(|&v| v != w && dominates(v, w)).collect();
        let nearest = all.iter().find(|&&v| all.iter().all(|&other| other == v || dominates(other, v)));
        out.push(nearest.map_or(u32::MAX, |&v| v as u32));
    }
    out
}

/// Distance of each vertex from `start`, in edges. `None` if unreachable.
pub(super) fn distances(from: &[Vec<u32>], start: u32) -> Vec<Option<u32>> {
    let mut far = vec![None; from.len()];
    far[start as usize] = Some(0);
    let mut queue = VecDeque::from([(start, 0)]);
    while let Some((at, steps)) = queue.pop_front() {
        for &to in &from[at as usize] {
            if far[to as usize].is_none() {
                far[to as usize] = Some(steps + 1);
                queue.push_back((to, steps + 1));
            }
        }
    }
    far
}

/// Immediate dominators by iteration to a fixed point over reverse post-order (Cooper, Harvey and Kennedy, A Simple,
/// Fast Dominance Algorithm, 2001), for graphs that are too large for [`naive`]. `None` for unreachable vertices.
pub(super) fn iterated(from: &[Vec<u32>]) -> Vec<Option<u32>> {
    let (mut order, mut seen) = (Vec::new(), vec![false; from.len()]);
    seen[0] = true;
    let mut stack = vec![(0_u32, 0)];
    while let Some((at, place)) = stack.pop() {
        match from[at as usize].get(place) {
            Some(&to) => {
                stack.push((at, place + 1));
                if !std::mem::replace(&mut seen[to as usize], true) {
                    stack.push((to, 0));
                }
            }
            None => order.push(at),
        }
    }
    order.reverse();
    let mut place = vec![usize::MAX; from.len()];
    order.iter().enumerate().for_each(|(at, &vertex)| place[vertex as usize] = at);
    let mut into = vec![Vec::new(); from.len()];
    for &vertex in &order {
        from[vertex as usize].iter().for_each(|&to| into[to as usize].push(vertex));
    }
    let mut out = vec![None; from.len()];
    out[0] = Some(0);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &vertex in &order[1..] {
            let mut found: Option<u32> = None;
            for &other in into[vertex as usize].iter().filter(|&&other| out[other as usize].is_some()) {
                let (mut a, mut b) = (found.unwrap_or(other), other);
                while a != b {
                    let later = if place[a as usize] > place[b as usize] { &mut a } else { &mut b };
                    *later = out[*later as usize].unwrap_or(0);
                }
                found = Some(a);
            }
            if out[vertex as usize] != found {
                out[vertex as usize] = found;
                changed = true;
            }
        }
    }
    out
}

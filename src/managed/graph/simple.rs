//! What lives and what dominates what, by what the words mean: slow, and what the others are held against.

/// What 0 leads to without going through `without`.
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

/// By what the word means: who takes a vertex with it when it goes.
pub(super) fn naive(len: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let lost: Vec<Vec<bool>> = (1..len as u32).map(|v| reached(len, edges, v)).collect();
    let dominates = |v: usize, w: usize| v == 0 || v != w && !lost[v - 1][w];
    let mut out = vec![0];
    for w in 1..len {
        // Of all its dominators the one that all others dominate.
        let all: Vec<usize> = (0..len).filter(|&v| v != w && dominates(v, w)).collect();
        let nearest = all.iter().find(|&&v| all.iter().all(|&other| other == v || dominates(other, v)));
        out.push(nearest.map_or(u32::MAX, |&v| v as u32));
    }
    out
}

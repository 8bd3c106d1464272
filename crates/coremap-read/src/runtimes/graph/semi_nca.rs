//! Dominators: an object dominates another if all paths from the roots to the other lead through it. Without it, the
//! other would be garbage.
//!
//! The algorithm is Semi-NCA (Georgiadis, Linear-Time Algorithms for Dominators and Related Problems, 2005). It
//! computes semidominators as Lengauer and Tarjan do (A Fast Algorithm for Finding Dominators in a Flowgraph, 1979),
//! with path compression alone. A vertex's dominator is then the nearest common ancestor of its parent and its
//! semidominator in the dominator tree built so far.
//!
//! That last step can be long for each vertex on graphs made for it. So its total number of steps is limited. Beyond
//! the limit, paths up are shortened by jump pointers (Myers, An applicative random-access stack, 1983). The worst case
//! is then O(m log n), so no crafted heap is slow.
//!
//! Vertices are preorder numbers of a depth-first search. Besides the edges there are three numbers per vertex. Two of
//! them are stored together, because they are read together and in random order.

use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};
use crate::runtimes::graph::shared_dominators::Edges;
use crate::runtimes::graph::work::step;

const NONE: u32 = u32::MAX;

/// Average number of single steps per vertex up to its dominator, before jump pointers are used.
const PATIENCE: u64 = 16;

/// The forest of the vertices that are already processed: those from a certain number on.
///
/// A vertex's entry has an ancestor in the low half. In the high half it has the minimum semidominator from the vertex
/// up to that ancestor, which is excluded. The ancestor is the parent until paths are compressed.
struct Forest {
    entries: Table<u64>,
    path: Vec<u32>,
}

fn pack(above: u32, least: u32) -> u64 {
    u64::from(least) << 32 | u64::from(above)
}

fn ancestor(place: u64) -> u32 {
    place as u32
}

fn minimum(place: u64) -> u32 {
    (place >> 32) as u32
}

impl Forest {
    /// The minimum semidominator from `v` up to the root of its tree, which is excluded. Vertices from `linked` on have
    /// a parent in the forest.
    #[inline(always)]
    fn eval(&mut self, v: u32, linked: u32) -> u32 {
        let of = self.entries[v as usize];
        if ancestor(of) >= linked { self.compress(v, linked) } else { minimum(of) }
    }

    fn compress(&mut self, v: u32, linked: u32) -> u32 {
        let mut at = v;
        let mut top = self.entries[at as usize];
        while ancestor(top) >= linked {
            step(1);
            self.path.push(at);
            at = ancestor(top);
            top = self.entries[at as usize];
        }
        // From the top down, each vertex takes the ancestor and the minimum of the one above it.
        while let Some(at) = self.path.pop() {
            let own = minimum(self.entries[at as usize]);
            top = pack(ancestor(top), own.min(minimum(top)));
            self.entries[at as usize] = top;
        }
        minimum(top)
    }
}

/// Immediate dominator of each vertex. It has a lower number; 0 is the root. `parents` is the tree of the depth-first
/// search, and `others` are the edges outside the tree.
///
/// # Errors
/// [`GraphError::NoSpace`]
pub(super) fn dominators(parents: Table<u32>, others: Edges, budget: &MemoryBudget) -> Result<Table<u32>, GraphError> {
    dominators_within(parents, others, budget, PATIENCE)
}

/// `patience`: average number of single steps per vertex before jump pointers are used.
fn dominators_within(
    mut parents: Table<u32>,
    mut others: Edges,
    budget: &MemoryBudget,
    patience: u64,
) -> Result<Table<u32>, GraphError> {
    let len = parents.len() as u32;
    let mut places = budget.table(len as usize)?;
    for (at, &parent) in places.iter_mut().zip(parents.iter()) {
        *at = pack(parent, NONE);
    }
    let mut forest = Forest { entries: places, path: Vec::new() };
    for w in (1..len).rev() {
        budget.in_time_at(w as usize)?;
        let mut semi = parents[w as usize];
        step(1);
        for &v in others.referrers(w) {
            step(1);
            semi = semi.min(if v < w { v } else { forest.eval(v, w + 1) });
        }
        let of = &mut forest.entries[w as usize];
        *of = pack(ancestor(*of), semi);
        // The end of its edges is not needed again, so its slot stores the semidominator.
        others.replace_end(w, semi);
    }
    let semis = others.into_ends();
    let mut steps = patience.saturating_mul(len.into());
    for w in 1..len {
        budget.in_time_at(w as usize)?;
        let semi = semis[w as usize];
        let mut up = parents[w as usize];
        while up > semi && steps > 0 {
            step(1);
            up = parents[up as usize];
            steps -= 1;
        }
        if up > semi {
            by_jump_pointers(&mut parents, &semis, w, forest.entries);
            break;
        }
        parents[w as usize] = up;
    }
    if let Some(root) = parents.first_mut() {
        *root = 0;
    }
    Ok(parents)
}

/// Computes the dominators from vertex `first` on in O(log n) steps each. Every vertex gets a jump pointer to a far
/// ancestor, and its depth.
fn by_jump_pointers(idoms: &mut [u32], semis: &[u32], first: u32, mut places: Table<u64>) {
    let (jump, depth) = (ancestor, minimum);
    if let Some(root) = places.first_mut() {
        *root = pack(0, 0);
    }
    for w in 1..idoms.len() as u32 {
        let mut up = idoms[w as usize];
        while w >= first && up > semis[w as usize] {
            step(1);
            let far = jump(places[up as usize]);
            up = if far >= semis[w as usize] { far } else { idoms[up as usize] };
        }
        idoms[w as usize] = up;
        let of = places[up as usize];
        let far = places[jump(of) as usize];
        // Two jumps of equal length become one.
        let even = depth(of) - depth(far) == depth(far) - depth(places[jump(far) as usize]);
        places[w as usize] = pack(if even { jump(far) } else { up }, depth(of) + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::graph::reference::naive;
    use proptest::prelude::*;

    /// Depth-first search from 0. Returns the parents and all edges between reached vertices, by preorder number.
    fn search(len: usize, edges: &[(usize, usize)]) -> (Vec<u32>, Vec<(u32, u32)>) {
        fn visit(at: usize, from: u32, edges: &[(usize, usize)], numbers: &mut [Option<u32>], parents: &mut Vec<u32>) {
            let number = parents.len() as u32;
            numbers[at] = Some(number);
            parents.push(from);
            for &(_, to) in edges.iter().filter(|e| e.0 == at) {
                if numbers[to].is_none() {
                    visit(to, number, edges, numbers, parents);
                }
            }
        }
        let (mut numbers, mut parents) = (vec![None; len], Vec::new());
        visit(0, 0, edges, &mut numbers, &mut parents);
        let numbered = edges.iter().filter_map(|e| Some((numbers[e.0]?, numbers[e.1]?)));
        (parents, numbered.collect())
    }

    /// The dominators, computed by single steps. Asserts that jump pointers give the same.
    fn found(parents: &[u32], others: &Edges) -> Vec<u32> {
        let budget = MemoryBudget::unbounded();
        let of = |patience| match dominators_within(table(parents), others.copy(table), &budget, patience) {
            Ok(found) => found.to_vec(),
            Err(e) => panic!("{e}"),
        };
        let by_steps = of(u64::MAX);
        assert_eq!(of(0), by_steps);
        by_steps
    }

    fn table(numbers: &[u32]) -> Table<u32> {
        let Ok(mut table) = MemoryBudget::unbounded().table(numbers.len()) else { panic!("no room") };
        table.copy_from_slice(numbers);
        table
    }

    /// The edges `pairs`, by target.
    fn edges_of(len: usize, pairs: &[(u32, u32)]) -> Edges {
        let (mut ends, mut from) = (Vec::new(), Vec::new());
        for to in 0..len as u32 {
            from.extend(pairs.iter().filter(|p| p.1 == to).map(|p| p.0));
            ends.push(from.len() as u32);
        }
        Edges::raw(table(&ends), table(&from))
    }

    fn agree(len: usize, edges: &[(usize, usize)], dense: bool) {
        let (parents, edges) = search(len, edges);
        // Tree edges may be included.
        let others: Vec<_> = edges.iter().copied().filter(|e| dense || parents[e.1 as usize] != e.0).collect();
        let others = edges_of(parents.len(), &others);
        assert_eq!(found(&parents, &others), naive(parents.len(), &edges), "{edges:?}");
    }

    #[test]
    fn the_graph_of_the_paper() {
        // Figure 1 of Lengauer and Tarjan: R A B C D E F G H I J K L.
        let edges = [
            (0, 1),
            (0, 2),
            (0, 3),
            (1, 4),
            (2, 1),
            (2, 4),
            (2, 5),
            (3, 6),
            (3, 7),
            (4, 12),
            (5, 8),
            (6, 9),
            (7, 9),
            (7, 10),
            (8, 5),
            (8, 11),
            (9, 11),
            (10, 9),
            (11, 9),
            (11, 0),
            (12, 8),
        ];
        let (parents, numbered) = search(13, &edges);
        let edges = edges_of(13, &numbered);
        let idoms = found(&parents, &edges);
        // In preorder: R A D L H E K I B C F G J. The paper's dominators: R for I, K, C, H, E, A, D, B; C for F, G; D
        // for L; G for J.
        assert_eq!(idoms, [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 9, 9, 11]);
    }

    proptest! {
        #[test]
        fn as_the_word_means(
            len in 1_usize..14,
            pairs in prop::collection::vec((0_usize..14, 0_usize..14), 0..40),
            dense: bool,
        ) {
            let edges: Vec<_> = pairs.into_iter().map(|(a, b)| (a % len, b % len)).collect();
            agree(len, &edges, dense);
        }
    }

    #[test]
    fn a_long_list_whose_nodes_share_something() {
        // A list 0 -> 1 -> …, whose nodes also reference the last vertex and the previous node. Vertex 1 dominates the
        // last one.
        const LEN: u32 = 1_000_000;
        let parents: Vec<u32> = (0..LEN).map(|v| v.saturating_sub(1)).chain([LEN - 1]).collect();
        let mut from: Vec<u32> = (1..LEN).map(|v| v + 1).collect();
        let mut ends: Vec<u32> = (0..LEN).collect();
        from.pop();
        ends[LEN as usize - 1] = from.len() as u32;
        from.extend(1..LEN);
        ends.push(from.len() as u32);
        let edges = Edges::raw(table(&ends), table(&from));
        let idoms = found(&parents, &edges);
        assert!((1..LEN).all(|v| idoms[v as usize] == v - 1));
        assert_eq!(idoms[LEN as usize], 1);
    }

    #[test]
    fn a_graph_on_which_steps_up_would_be_many() {
        // A long list with a second one attached to its end. Each node of the second list is also referenced from the
        // middle of the first. That middle node is the dominator, half the list away.
        const LEN: u32 = 5_000;
        let half = LEN / 2;
        let parents: Vec<u32> = (0..2 * LEN).map(|v| if v < LEN { v.saturating_sub(1) } else { LEN - 1 }).collect();
        let ends: Vec<u32> = (0..2 * LEN).map(|v| (v + 1).saturating_sub(LEN)).collect();
        let from = vec![half; LEN as usize];
        let idoms = found(&parents, &Edges::raw(table(&ends), table(&from)));
        assert!((1..LEN).all(|v| idoms[v as usize] == v - 1));
        assert!((LEN..2 * LEN).all(|v| idoms[v as usize] == half));
        // Each of them takes half the list in single steps, or one or two jumps.
        let once = |patience| {
            let edges = Edges::raw(table(&ends), table(&from));
            dominators_within(table(&parents), edges, &MemoryBudget::unbounded(), patience).map(|found| found.to_vec())
        };
        assert_eq!(once(PATIENCE), Ok(idoms));
    }
}

//! Who dominates whom: an object dominates another if all ways from the roots to
//! that one lead through it. Without it the other would be garbage.
//!
//! Lengauer and Tarjan, A Fast Algorithm for Finding Dominators in a Flowgraph,
//! 1979, the form with path compression alone: O(m log n) whatever the graph, so
//! that no heap made on purpose is slow. Numbers are those of a depth-first
//! search. Four numbers for each vertex: an ancestor is a parent until paths are
//! compressed; the first of a bucket stands where later the semidominator is, the
//! next of a bucket where later the dominator is.

use crate::managed::graph::deep::Edges;
use crate::managed::graph::room::{GraphError, Room, Table};

const NONE: u32 = u32::MAX;

/// What the search has of vertices it is done with: those from a number on.
struct Forest {
    ancestors: Table<u32>,
    semis: Table<u32>,
    labels: Table<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// The vertex of least semidominator from `v` up to the root of its tree,
    /// which is left out; vertices from `linked` on have an ancestor.
    #[inline(always)]
    fn eval(&mut self, v: u32, linked: u32) -> u32 {
        if self.ancestors[v as usize] >= linked {
            self.compress(v, linked);
        }
        self.labels[v as usize]
    }

    fn compress(&mut self, v: u32, linked: u32) {
        let mut at = v;
        while self.ancestors[at as usize] >= linked {
            self.path.push(at);
            at = self.ancestors[at as usize];
        }
        while let Some(at) = self.path.pop() {
            let up = self.ancestors[at as usize] as usize;
            let (label, above) = (self.labels[at as usize], self.labels[up]);
            if self.semis[above as usize] < self.semis[label as usize] {
                self.labels[at as usize] = above;
            }
            self.ancestors[at as usize] = self.ancestors[up];
        }
    }
}

/// For each vertex its immediate dominator, which has a lower number. Number 0 is
/// the root. `parents` tell the tree of the search, `others` the edges that are not of it.
///
/// # Errors
/// [`GraphError::NoRoom`]
pub(super) fn dominators(parents: Table<u32>, others: &Edges, room: &Room) -> Result<Table<u32>, GraphError> {
    let len = parents.len() as u32;
    let mut labels: Table<u32> = room.table(len as usize)?;
    for (label, number) in labels.iter_mut().zip(0..) {
        *label = number;
    }
    let mut semis = room.table(len as usize)?;
    semis.fill(NONE);
    let mut forest = Forest { ancestors: parents, semis, labels, path: Vec::new() };
    let mut idoms: Table<u32> = room.table(len as usize)?;
    idoms.fill(NONE);
    for w in (1..len).rev() {
        let parent = forest.ancestors[w as usize];
        let mut semi = parent;
        for &v in others.to(w) {
            let candidate = if v < w {
                v
            } else {
                let least = forest.eval(v, w + 1);
                forest.semis[least as usize]
            };
            semi = semi.min(candidate);
        }
        // Its own bucket is empty by now: all in it are below one of its children.
        forest.semis[w as usize] = semi;
        if semi == parent {
            idoms[w as usize] = parent;
        } else {
            idoms[w as usize] = std::mem::replace(&mut forest.semis[semi as usize], w);
        }
        let mut v = std::mem::replace(&mut forest.semis[parent as usize], NONE);
        while v != NONE {
            let next = idoms[v as usize];
            let least = forest.eval(v, w);
            let lower = forest.semis[least as usize] < forest.semis[v as usize];
            idoms[v as usize] = if lower { least } else { parent };
            v = next;
        }
    }
    for w in 1..len as usize {
        if idoms[w] != forest.semis[w] {
            idoms[w] = idoms[idoms[w] as usize];
        }
    }
    if let Some(root) = idoms.first_mut() {
        *root = 0;
    }
    Ok(idoms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::graph::simple::naive;
    use proptest::prelude::*;

    /// Numbers and parents of a depth-first search from 0, and all edges between
    /// what it reached, by number.
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

    /// Of tables made of these.
    fn found(parents: &[u32], others: &Edges) -> Vec<u32> {
        let room = Room::unbounded();
        match dominators(table(parents), others, &room) {
            Ok(found) => found.to_vec(),
            Err(e) => panic!("{e}"),
        }
    }

    fn table(numbers: &[u32]) -> Table<u32> {
        let Ok(mut table) = Room::unbounded().table(numbers.len()) else { panic!("no room") };
        table.copy_from_slice(numbers);
        table
    }

    /// Those of some pairs.
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
        // Edges of the tree may be among the others or not.
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
        // In the order of the search: R A D L H E K I B C F G J. The paper's
        // dominators: I, K, C, H, E, A, D, B of R; F, G of C; L of D; J of G.
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
        // 0 -> 1 -> … and each leads to the last, which the first dominates; the
        // list leads back too.
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
}

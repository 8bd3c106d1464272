//! The wait graph: which nodes can never make progress, and where the waits of the others end.
//!
//! All passes are linear in nodes and edges. A pool is a node of its own. So if a thousand tasks wait for any of a
//! hundred workers, there are a thousand edges.

use crate::runtimes::api::WaitNeeds;

/// Number of a node.
pub(crate) type NodeId = u32;

/// The nodes that one node waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    /// Nodes that can end the wait. Empty if no such node is known.
    pub(crate) to: Vec<NodeId>,
    /// Whether all of these nodes must act, or any.
    pub(crate) needs: WaitNeeds,
    /// Whether all of this is recorded in memory.
    pub(crate) exact: bool,
}

/// The graph, with the results of its analysis.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    edges: Vec<Edges>,
    /// Whether each node can never make progress.
    stuck: Vec<bool>,
    /// Cycle of each stuck node: index into `cycles`. `None` if it only waits behind one.
    cycle_of: Vec<Option<u32>>,
    /// Members of each cycle.
    pub(crate) cycles: Vec<Vec<NodeId>>,
    /// The node at which each node's waits end: itself if it waits for nobody.
    root: Vec<NodeId>,
}

impl WaitGraph {
    /// Analyses the graph. `edges` has one entry per node; targets outside of it are ignored.
    pub(crate) fn new(mut edges: Vec<Edges>) -> WaitGraph {
        let count = edges.len() as u32;
        for edge in &mut edges {
            edge.to.retain(|to| *to < count);
        }
        let stuck = stuck(&edges);
        let (cycle_of, cycles) = cycles(&edges, &stuck);
        let root = roots(&edges, &stuck);
        WaitGraph { edges, stuck, cycle_of, cycles, root }
    }

    /// Whether the node can never make progress.
    pub(crate) fn is_stuck(&self, node: NodeId) -> bool {
        self.stuck.get(node as usize).copied().unwrap_or(false)
    }

    /// Returns the index of the cycle that contains the node.
    pub(crate) fn cycle(&self, node: NodeId) -> Option<u32> {
        self.cycle_of.get(node as usize).copied().flatten()
    }

    /// Returns the nodes that can end the node's wait.
    pub(crate) fn targets(&self, node: NodeId) -> &[NodeId] {
        self.edges.get(node as usize).map(|edge| edge.to.as_slice()).unwrap_or_default()
    }

    /// Whether the evidence for the node's wait is exact.
    pub(crate) fn is_exact(&self, node: NodeId) -> bool {
        self.edges.get(node as usize).is_some_and(|edge| edge.exact)
    }

    /// Returns the node at which this node's waits end. For stuck nodes, a member of a cycle.
    pub(crate) fn root(&self, node: NodeId) -> NodeId {
        self.root.get(node as usize).copied().unwrap_or(node)
    }
}

/// Marks nodes that can never make progress: removes nodes that can, until none is left to remove.
fn stuck(edges: &[Edges]) -> Vec<bool> {
    let mut stuck: Vec<bool> = edges.iter().map(|edge| !edge.to.is_empty()).collect();
    // For each node, the nodes that wait for it.
    let mut waiters: Vec<Vec<NodeId>> = vec![Vec::new(); edges.len()];
    let mut left: Vec<usize> = Vec::with_capacity(edges.len());
    for (node, edge) in (0..).zip(edges) {
        left.push(match edge.needs {
            WaitNeeds::All => edge.to.len(),
            WaitNeeds::Any => 1,
        });
        for &to in &edge.to {
            if let Some(list) = waiters.get_mut(to as usize) {
                list.push(node);
            }
        }
    }
    let mut free: Vec<NodeId> =
        (0..).zip(&stuck).filter(|(_, stuck)| !**stuck).map(|(node, _): (NodeId, _)| node).collect();
    while let Some(node) = free.pop() {
        for &waiter in waiters.get(node as usize).into_iter().flatten() {
            let (Some(left), Some(stuck)) = (left.get_mut(waiter as usize), stuck.get_mut(waiter as usize)) else {
                continue;
            };
            *left = left.saturating_sub(1);
            if *left == 0 && *stuck {
                *stuck = false;
                free.push(waiter);
            }
        }
    }
    stuck
}

/// Finds strongly connected components of the stuck nodes with an edge inside (Tarjan 1972, without recursion).
fn cycles(edges: &[Edges], stuck: &[bool]) -> (Vec<Option<u32>>, Vec<Vec<NodeId>>) {
    const NEW: u32 = u32::MAX;
    let count = edges.len();
    let (mut index, mut low) = (vec![NEW; count], vec![0_u32; count]);
    let mut on_path = vec![false; count];
    let (mut path, mut next): (Vec<NodeId>, u32) = (Vec::new(), 0);
    let (mut cycle_of, mut cycles): (Vec<Option<u32>>, Vec<Vec<NodeId>>) = (vec![None; count], Vec::new());
    let is = |list: &[bool], node: NodeId| list.get(node as usize).copied().unwrap_or(false);
    let at = |list: &[u32], node: NodeId| list.get(node as usize).copied().unwrap_or(NEW);
    for start in 0..count as u32 {
        if !is(stuck, start) || at(&index, start) != NEW {
            continue;
        }
        let mut calls: Vec<(NodeId, usize)> = vec![(start, 0)];
        while let Some((node, done)) = calls.last_mut() {
            let (node, position) = (*node, *done);
            *done += 1;
            if position == 0 {
                set(&mut index, node, next);
                set(&mut low, node, next);
                next = next.saturating_add(1);
                path.push(node);
                set(&mut on_path, node, true);
            }
            match edges.get(node as usize).and_then(|edge| edge.to.get(position)) {
                Some(&to) if is(stuck, to) && at(&index, to) == NEW => calls.push((to, 0)),
                Some(&to) if is(&on_path, to) => {
                    let least = at(&low, node).min(at(&index, to));
                    set(&mut low, node, least);
                }
                Some(_) => {}
                None => {
                    calls.pop();
                    if let Some(&(up, _)) = calls.last() {
                        let least = at(&low, up).min(at(&low, node));
                        set(&mut low, up, least);
                    }
                    if at(&low, node) == at(&index, node) {
                        let from = path.iter().rposition(|of| *of == node).unwrap_or(path.len());
                        let mut members = path.split_off(from);
                        members.iter().for_each(|&of| set(&mut on_path, of, false));
                        let to_self = edges.get(node as usize).is_some_and(|edge| edge.to.contains(&node));
                        if members.len() > 1 || to_self {
                            members.sort_unstable();
                            members.iter().for_each(|&of| set(&mut cycle_of, of, Some(cycles.len() as u32)));
                            cycles.push(members);
                        }
                    }
                }
            }
        }
    }
    (cycle_of, cycles)
}

fn set<T>(list: &mut [T], node: NodeId, value: T) {
    if let Some(entry) = list.get_mut(node as usize) {
        *entry = value;
    }
}

/// Follows each node to the one at which its waits end. Results are reused for nodes on the way.
fn roots(edges: &[Edges], stuck: &[bool]) -> Vec<NodeId> {
    const UNKNOWN: u32 = u32::MAX;
    let count = edges.len();
    let mut root = vec![UNKNOWN; count];
    let mut on_path = vec![false; count];
    for start in 0..count as u32 {
        let mut path = Vec::new();
        let mut at = start;
        let end = loop {
            if let Some(&known) = root.get(at as usize).filter(|known| **known != UNKNOWN) {
                break known;
            }
            path.push(at);
            set(&mut on_path, at, true);
            let is_stuck = stuck.get(at as usize).copied().unwrap_or(false);
            let to = edges.get(at as usize).map(|edge| edge.to.as_slice()).unwrap_or_default();
            let fresh = |to: &&NodeId| !on_path.get(**to as usize).copied().unwrap_or(true);
            let waits = |to: &&NodeId| edges.get(**to as usize).is_some_and(|edge| !edge.to.is_empty());
            // From a stuck node, follow only nodes that keep it stuck.
            let same = |to: &&NodeId| !is_stuck || stuck.get(**to as usize).copied().unwrap_or(false);
            // If any target is enough, prefer the first without a wait. If all are needed, prefer the first that waits.
            let any = edges.get(at as usize).is_some_and(|edge| edge.needs == WaitNeeds::Any);
            let best = to.iter().filter(fresh).filter(same).find(|to| waits(to) != any);
            match best.or_else(|| to.iter().filter(same).find(fresh)) {
                Some(&next) => at = next,
                None => break at,
            }
        };
        for node in path {
            set(&mut root, node, end);
            set(&mut on_path, node, false);
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn all(to: &[NodeId]) -> Edges {
        Edges { to: to.to_vec(), needs: WaitNeeds::All, exact: true }
    }

    fn any(to: &[NodeId]) -> Edges {
        Edges { needs: WaitNeeds::Any, ..all(to) }
    }

    #[test]
    fn two_that_wait_for_each_other_are_stuck_and_others_wait_behind() {
        // 0 and 1 wait for each other, 2 for 0, 3 for 4, which waits for nobody.
        let graph = WaitGraph::new(vec![all(&[1]), all(&[0]), all(&[0]), all(&[4]), all(&[])]);
        assert_eq!(graph.cycles, [vec![0, 1]]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| graph.is_stuck(n)), [true, true, true, false, false]);
        assert_eq!((graph.cycle(2), graph.root(3), graph.root(4)), (None, 4, 4));
        assert!(graph.cycle(graph.root(2)).is_some());
    }

    #[test]
    fn a_pool_goes_on_if_one_worker_is_free() {
        // Workers 0 and 1 wait for pool 2, whose workers they are; 3 is a free worker in the second graph.
        let starved = WaitGraph::new(vec![all(&[2]), all(&[2]), any(&[0, 1])]);
        assert_eq!(starved.cycles, [vec![0, 1, 2]]);
        let served = WaitGraph::new(vec![all(&[2]), all(&[2]), any(&[0, 1, 3]), all(&[])]);
        assert!((0..4).all(|n| !served.is_stuck(n)));
        assert_eq!(served.root(0), 3);
    }

    #[test]
    fn a_lock_with_several_readers_waits_for_all_of_them() {
        // The writer 0 waits for readers 1 and 2; 2 waits for the writer.
        let graph = WaitGraph::new(vec![all(&[1, 2]), all(&[]), all(&[0])]);
        assert_eq!(graph.cycles, [vec![0, 2]]);
        let own = WaitGraph::new(vec![all(&[0]), all(&[9])]);
        assert_eq!((own.cycles.len(), own.is_stuck(1)), (1, false));
    }

    #[test]
    fn twenty_thousand_parties_take_less_than_a_fifth_of_a_second() {
        // A chain of 10,000, and 10,000 that wait for any of 100 workers of one pool.
        let mut edges: Vec<Edges> = (1..10_000).map(|next| all(&[next])).collect();
        edges.push(all(&[]));
        let pool = edges.len() as u32 + 10_000;
        edges.extend((0..10_000).map(|_| all(&[pool])));
        edges.push(any(&(10_000..10_100).collect::<Vec<_>>()));
        let began = Instant::now();
        let graph = WaitGraph::new(edges);
        assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
        assert_eq!((graph.root(0), graph.is_stuck(0), graph.is_stuck(15_000)), (9_999, false, true));
        assert_eq!(graph.cycles.iter().map(Vec::len).collect::<Vec<_>>(), [101]);
    }
}

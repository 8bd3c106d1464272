//! Chains of tasks, from the awaited object outwards, with equal chains merged.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::coreclr::tasks::links::{Awaits, End, Node, Tasks};

/// A chain of tasks, or several equal ones.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Number of equal chains.
    pub count: u64,
    /// Indices into [`Tasks::nodes`] of the first such chain: the awaited object first, then who waits for it.
    pub nodes: Vec<u32>,
    /// What the chain ends with.
    pub end: End,
    /// The last object of each equal chain, up to a limit.
    pub last: Vec<Addr>,
    /// Number of different objects at the start of these chains.
    pub roots: u64,
}

/// All chains with at least one async method.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// Chains by descending count.
    pub list: Vec<Chain>,
    /// Number of chains before merging.
    pub total: u64,
    /// Whether a limit ended the search early.
    pub cut: bool,
}

/// The properties of a chain's step that must match for two chains to be equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct StepKey {
    method_table: Addr,
    state: Option<i32>,
    awaits: u8,
    place: u32,
    /// Type of the completion source of a task.
    source: Addr,
}

impl StepKey {
    fn of(tasks: &Tasks, node: &Node) -> StepKey {
        let awaits = match node.awaits {
            Awaits::Object(_) => 0,
            Awaits::Done(_) => 1,
            Awaits::Unknown => 2,
            Awaits::Nothing => 3,
        };
        let source = tasks.sources.get(&node.addr).map_or(Addr::NULL, |source| source.method_table);
        StepKey { method_table: node.method_table, state: node.state, awaits, place: node.place, source }
    }
}

/// Steps of a chain and the kind of its end.
type ChainKey = (Vec<StepKey>, u8);

struct Follower<'t> {
    tasks: &'t Tasks,
    merge: bool,
    index: HashMap<ChainKey, usize>,
    /// For each chain, the objects that it waits for.
    awaited: Vec<HashSet<Addr>>,
    chains: Chains,
    seen: Vec<bool>,
    /// Remaining steps that may be followed, over all chains.
    steps: usize,
    /// Remaining steps that may be stored, over all distinct chains.
    room: usize,
}

impl Tasks {
    /// The object that has the queue which an awaited object is in: the SemaphoreSlim of a TaskNode.
    pub fn owner_of(&self, awaited: Addr) -> Option<Addr> {
        self.owners.get(&awaited).copied()
    }

    /// Builds all chains. Equal ones are merged if `merge`.
    pub fn chains(&self, merge: bool) -> Chains {
        let mut follower = Follower {
            tasks: self,
            merge,
            index: HashMap::new(),
            awaited: Vec::new(),
            chains: Chains::default(),
            seen: vec![false; self.nodes.len()],
            steps: limits::MAX_ASYNC_STEPS,
            room: limits::MAX_ASYNC_PARTS,
        };
        for (i, _) in self.nodes.iter().enumerate().filter(|(_, n)| !n.follows) {
            follower.follow_root(i as u32);
        }
        // Nodes not visited yet wait in cycles.
        for i in 0..self.nodes.len() {
            if follower.seen.get(i) == Some(&false) {
                follower.follow_root(i as u32);
            }
        }
        let mut chains = follower.chains;
        chains.list.sort_by_key(|c| std::cmp::Reverse(c.count));
        chains
    }
}

impl Follower<'_> {
    /// Follows all chains that begin with `root`.
    fn follow_root(&mut self, root: u32) {
        let tasks = self.tasks;
        let next = |at: u32| tasks.nodes.get(at as usize).map_or(&[][..], |n| n.next.as_slice());
        // Depth-first path: node, index of the next follower to visit, and the end to report if no follower is visited.
        let mut path: Vec<(u32, usize, Option<End>)> = vec![(root, 0, Some(End::Nobody))];
        let mut on_path: HashMap<u32, ()> = HashMap::from([(root, ())]);
        self.mark(root);
        while let Some(&mut (at, ref mut turn, ref mut own_end)) = path.last_mut() {
            let follower = next(at).get(*turn).copied();
            *turn += 1;
            match follower {
                Some(to) if on_path.contains_key(&to) || on_path.len() >= limits::MAX_ASYNC_DEPTH => {
                    *own_end = own_end.map(|_| End::Cycle);
                }
                Some(to) => {
                    *own_end = None;
                    self.mark(to);
                    on_path.insert(to, ());
                    path.push((to, 0, Some(End::Nobody)));
                }
                None => {
                    let ends = tasks.nodes.get(at as usize).map_or(&[][..], |n| n.ends.as_slice());
                    let own_end = *own_end;
                    if let Some(end) = own_end.filter(|_| ends.is_empty()) {
                        self.emit(&path, end);
                    }
                    for &end in ends {
                        self.emit(&path, end);
                    }
                    on_path.remove(&at);
                    path.pop();
                }
            }
            if self.chains.cut {
                return;
            }
        }
    }

    fn mark(&mut self, at: u32) {
        if let Some(seen) = self.seen.get_mut(at as usize) {
            *seen = true;
        }
    }

    fn emit(&mut self, path: &[(u32, usize, Option<End>)], end: End) {
        let nodes = || path.iter().filter_map(|&(at, ..)| self.tasks.nodes.get(at as usize));
        if !nodes().any(Node::has_methods) {
            return;
        }
        if path.len() == 1 && end == End::Nobody && nodes().any(Node::may_be_pooled) {
            return;
        }
        let Some(steps) = self.steps.checked_sub(path.len()) else {
            self.chains.cut = true;
            return;
        };
        self.steps = steps;
        let last = nodes().next_back().map_or(Addr::NULL, |n| n.addr);
        let root = path.first().and_then(|&(at, ..)| self.tasks.nodes.get(at as usize)).map_or(Addr::NULL, |n| n.addr);
        // The waiters in a queue wait for what has the queue.
        let root = self.tasks.owner_of(root).unwrap_or(root);
        let key = || {
            let kind = match end {
                End::Nobody => 0,
                End::Thread(_) => 1,
                End::Callback(_) => 2,
                End::Other(_) => 3,
                End::Cycle => 4,
            };
            (nodes().map(|n| StepKey::of(self.tasks, n)).collect(), kind)
        };
        let known = if self.merge { self.index.get(&key()).copied() } else { None };
        let list = &mut self.chains.list;
        match known.and_then(|at| Some((list.get_mut(at)?, self.awaited.get_mut(at)?))) {
            Some((chain, awaited)) => {
                self.chains.total += 1;
                chain.count += 1;
                if chain.last.len() < limits::MAX_ASYNC_LISTED {
                    chain.last.push(last);
                }
                if awaited.insert(root) {
                    chain.roots += 1;
                }
            }
            None => {
                let Some(room) = self.room.checked_sub(path.len()) else {
                    self.chains.cut = true;
                    return;
                };
                self.room = room;
                self.chains.total += 1;
                if self.merge {
                    let key = (nodes().map(|n| StepKey::of(self.tasks, n)).collect(), key().1);
                    self.index.insert(key, list.len());
                }
                let nodes = path.iter().map(|p| p.0).collect();
                list.push(Chain { count: 1, nodes, end, last: vec![last], roots: 1 });
                self.awaited.push(HashSet::from([root]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::runtimes::coreclr::tasks::HttpObjects;
    use crate::runtimes::coreclr::tasks::shapes::Machine;

    /// A node of type `kind`. Nodes of type 1 are async methods.
    fn node(i: usize, kind: u64, next: &[u32]) -> Node {
        let machine =
            Machine { method_table: Addr::new(1), at: 0, object: false, state: None, this: None, awaiters: Vec::new() };
        Node {
            addr: Addr::new(0x1000 + i as u64),
            method_table: Addr::new(kind),
            task: true,
            machine: (kind == 1).then(|| Arc::new(machine)),
            state: (kind == 1).then_some(0),
            awaits: Awaits::Nothing,
            next: next.to_vec(),
            ends: Vec::new(),
            follows: false,
            runtime_async: false,
            suspended: Vec::new(),
            tid: None,
            frames: None,
            delegate: false,
            place: 0,
        }
    }

    fn tasks(nodes: &[(u64, &[u32])]) -> Tasks {
        let mut nodes: Vec<Node> = nodes.iter().enumerate().map(|(i, (kind, next))| node(i, *kind, next)).collect();
        for next in nodes.iter().flat_map(|n| n.next.clone()).collect::<Vec<_>>() {
            nodes[next as usize].follows = true;
        }
        Tasks {
            nodes,
            sources: HashMap::new(),
            http: HttpObjects::default(),
            omitted: 0,
            lost: 0,
            by_address: HashMap::new(),
            below_starts: Vec::new(),
            below: Vec::new(),
            owners: HashMap::new(),
        }
    }

    fn counts(chains: &Chains) -> Vec<(u64, Vec<u32>)> {
        chains.list.iter().map(|c| (c.count, c.nodes.clone())).collect()
    }

    #[test]
    fn equal_chains_are_merged_and_those_without_methods_left_out() {
        // 1 and 2 await task 0; 4 awaits 3; 6, which is no async method, awaits 5.
        let tasks = tasks(&[(7, &[1, 2]), (1, &[]), (1, &[]), (7, &[4]), (1, &[]), (7, &[6]), (8, &[])]);
        let merged = tasks.chains(true);
        assert_eq!(counts(&merged), [(3, vec![0, 1])]);
        assert_eq!((merged.total, merged.list[0].roots), (3, 2));
        assert_eq!(merged.list[0].last, [Addr::new(0x1001), Addr::new(0x1002), Addr::new(0x1004)]);
        assert_eq!(counts(&tasks.chains(false)), [(1, vec![0, 1]), (1, vec![0, 2]), (1, vec![3, 4])]);
    }

    #[test]
    fn cycles_end() {
        // 0 and 1 wait for each other, 2 waits for itself.
        let tasks = tasks(&[(1, &[1]), (1, &[0]), (1, &[2])]);
        let chains = tasks.chains(true);
        assert!(!chains.cut);
        assert_eq!(counts(&chains), [(1, vec![0, 1]), (1, vec![2])]);
        assert!(chains.list.iter().all(|c| c.end == End::Cycle));
    }

    #[test]
    fn ways_without_end_are_cut() {
        // Two paths fork and join 60 times in a row.
        let mut list: Vec<(u64, Vec<u32>)> = Vec::new();
        for step in 0..60_u32 {
            let at = 3 * step;
            list.push((1, vec![at + 1, at + 2]));
            list.push((1, vec![at + 3]));
            list.push((1, vec![at + 3]));
        }
        list.push((1, Vec::new()));
        let list: Vec<(u64, &[u32])> = list.iter().map(|(kind, next)| (*kind, next.as_slice())).collect();
        assert!(tasks(&list).chains(true).cut);
    }
}

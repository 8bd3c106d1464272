//! Follows lists in the dumped process's memory. Every walk ends, whatever the core contains.
//!
//! A list in a damaged or crafted core may have a cycle, run into another list, or continue
//! through all memory. Each walk remembers the nodes it visited. All walks of a phase share
//! one budget of steps, because thousands of lists that each end may still take too long
//! together. `tests/all/source_rules.rs` checks that no list is followed in another way.
//!
//! Items that are visited in address order (chunks of a heap, objects of a segment) are no
//! list.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::addr::Addr;
use crate::phase::Phase;

/// The reason why a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The walk visited this node before.
    #[error("has a cycle at {0}")]
    Cycle(Addr),
    /// Another walk of the same kind visited this node before.
    #[error("runs into another list at {0}")]
    Met(Addr),
    /// The budget of steps is spent.
    #[error("is not followed past {at}: more than {limit} steps of reading {}", .phase.name())]
    TooMany {
        /// The first node that was not visited.
        at: Addr,
        /// Phase that the budget belongs to.
        phase: Phase,
        /// Size of the budget.
        limit: u64,
    },
}

/// The reason why a list was not followed to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken<E: std::fmt::Display> {
    /// The walk stopped.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// A node makes no sense or is not in the core.
    #[error("breaks off at {0}: {1}")]
    Unreadable(Addr, E),
}

/// All walks of one phase: their shared budget of steps, and the nodes they visited.
#[derive(Debug)]
pub(crate) struct Walks {
    phase: Phase,
    limit: u64,
    left: AtomicU64,
    lists: AtomicU32,
    /// Number of the list that visited each node first.
    seen: Mutex<HashMap<Addr, u32>>,
}

impl Walks {
    /// Creates a budget of `limit` steps for all walks together.
    pub(crate) fn new(phase: Phase, limit: usize) -> Walks {
        let limit = limit as u64;
        Walks { phase, limit, left: AtomicU64::new(limit), lists: AtomicU32::new(0), seen: Mutex::default() }
    }

    /// Starts a walk of a list whose nodes are in no other list of these walks.
    pub(crate) fn begin(&self) -> Walk<'_> {
        let number = self.lists.fetch_add(1, Ordering::Relaxed);
        Walk { walks: self, left: u64::MAX, limit: u64::MAX, memory: Memory::Shared(number) }
    }

    /// Starts a walk of a list that may share nodes with others. Only its own nodes are
    /// remembered.
    pub(crate) fn begin_own_set(&self) -> Walk<'_> {
        Walk { walks: self, left: u64::MAX, limit: u64::MAX, memory: Memory::Own(HashSet::new()) }
    }

    /// Like [`Walks::begin_own_set`], but without a set of nodes, for lists of millions. A cycle is
    /// noticed after at most three times its number of nodes.
    pub(crate) fn begin_cycle_only(&self) -> Walk<'_> {
        let memory = Memory::Mark { node: None, since: 0, until: 1 };
        Walk { walks: self, left: u64::MAX, limit: u64::MAX, memory }
    }

    /// Takes `work` steps for work on the way that follows no list, such as reading the words
    /// of an array at `at`.
    pub(crate) fn spend(&self, at: Addr, work: u64) -> Result<(), Stop> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(work));
        taken.map(drop).map_err(|_| {
            self.left.store(0, Ordering::Relaxed);
            Stop::TooMany { at, phase: self.phase, limit: self.limit }
        })
    }

    /// Whether the budget is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Nodes that a walk remembers.
#[derive(Debug)]
enum Memory {
    /// All nodes, shared with the other walks. Has the number of this list.
    Shared(u32),
    /// All nodes of this list.
    Own(HashSet<Addr>),
    /// One node, replaced after a number of steps that doubles each time (R. P. Brent, An
    /// improved Monte Carlo factorization algorithm, 1980).
    Mark { node: Option<Addr>, since: u64, until: u64 },
}

/// A walk of one list.
#[derive(Debug)]
pub(crate) struct Walk<'w> {
    walks: &'w Walks,
    left: u64,
    limit: u64,
    memory: Memory,
}

impl Walk<'_> {
    /// Limits this list to `nodes` nodes, whatever the shared budget has left.
    pub(crate) fn at_most(self, nodes: usize) -> Self {
        Walk { left: nodes as u64, limit: nodes as u64, ..self }
    }

    /// Takes one step. Fails if the node at `at` must not be visited; call it before reading
    /// the node.
    pub(crate) fn step(&mut self, at: Addr) -> Result<(), Stop> {
        match &mut self.memory {
            Memory::Shared(number) => {
                let mut seen = self.walks.seen.lock().unwrap_or_else(PoisonError::into_inner);
                match seen.get(&at) {
                    Some(before) if before == number => return Err(Stop::Cycle(at)),
                    Some(_) => return Err(Stop::Met(at)),
                    None => {}
                }
                // Nodes that are not visited are not remembered.
                if self.left > 0 && !self.walks.is_spent() {
                    seen.insert(at, *number);
                }
            }
            Memory::Own(seen) => {
                if seen.contains(&at) {
                    return Err(Stop::Cycle(at));
                }
                if self.left > 0 && !self.walks.is_spent() {
                    seen.insert(at);
                }
            }
            Memory::Mark { node, since, until } => {
                if *node == Some(at) {
                    return Err(Stop::Cycle(at));
                }
                *since += 1;
                if since == until {
                    (*node, *since, *until) = (Some(at), 0, until.saturating_mul(2));
                }
            }
        }
        self.left = self.left.checked_sub(1).ok_or(Stop::TooMany { at, phase: self.walks.phase, limit: self.limit })?;
        self.walks.spend(at, 1)
    }

    /// Visits the nodes from `first` to the last one. `node` returns the next node's address,
    /// or null at the end.
    pub(crate) fn follow<E: std::fmt::Display>(
        mut self,
        first: Addr,
        mut node: impl FnMut(Addr) -> Result<Addr, E>,
    ) -> Result<(), Broken<E>> {
        let mut at = first;
        while !at.is_null() {
            self.step(at)?;
            at = node(at).map_err(|e| Broken::Unreadable(at, e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walks(limit: usize) -> Walks {
        Walks::new(Phase::Locks, limit)
    }

    /// Walks a list in which each node leads to the next one of `nodes`.
    fn over(mut walk: Walk<'_>, nodes: &[u64]) -> Result<(), Stop> {
        nodes.iter().try_for_each(|&at| walk.step(Addr::new(at)))
    }

    #[test]
    fn a_cycle_is_none_of_too_many_and_no_other_list() {
        let all = walks(100);
        assert_eq!(over(all.begin(), &[1, 2, 3]), Ok(()));
        assert_eq!(over(all.begin(), &[4, 5, 4]), Err(Stop::Cycle(Addr::new(4))));
        assert_eq!(over(all.begin(), &[6, 2, 7]), Err(Stop::Met(Addr::new(2))));
        assert_eq!(over(all.begin_own_set(), &[1, 2, 3]), Ok(()));
        assert_eq!(over(all.begin_own_set(), &[1, 2, 1]), Err(Stop::Cycle(Addr::new(1))));
        let left = Stop::TooMany { at: Addr::new(3), phase: Phase::Locks, limit: 2 };
        assert_eq!(over(all.begin_own_set().at_most(2), &[1, 2, 3]), Err(left));
        assert_eq!(left.to_string(), "is not followed past 0x3: more than 2 steps of reading locks");
    }

    #[test]
    fn all_walks_share_the_steps() {
        let all = walks(5);
        assert_eq!(over(all.begin(), &[1, 2, 3]), Ok(()));
        let left = Stop::TooMany { at: Addr::new(6), phase: Phase::Locks, limit: 5 };
        assert_eq!(over(all.begin(), &[4, 5, 6, 7]), Err(left));
        assert!(all.is_spent());
        assert_eq!(over(all.begin(), &[8]), Err(Stop::TooMany { at: Addr::new(8), phase: Phase::Locks, limit: 5 }));
    }

    #[test]
    fn work_that_is_more_than_what_is_left_leaves_nothing() {
        let all = walks(5);
        assert_eq!(all.spend(Addr::new(1), 4), Ok(()));
        assert!(all.spend(Addr::new(1), 2).is_err() && all.is_spent());
    }

    #[test]
    fn light_walks_notice_cycles_of_any_length_and_lead() {
        for lead in 0..20u64 {
            for cycle in 1..20u64 {
                let all = walks(1000);
                let mut walk = all.begin_cycle_only();
                let at = |i: u64| Addr::new(if i < lead { 100 + i } else { 200 + (i - lead) % cycle });
                let taken = (0..).take_while(|&i| walk.step(at(i)).is_ok()).count() as u64;
                assert!(taken >= cycle && taken <= 3 * (lead + cycle), "{lead} {cycle}: {taken}");
                assert!(!all.is_spent());
            }
        }
        assert_eq!(over(walks(1000).begin_cycle_only(), &(1..900).collect::<Vec<_>>()), Ok(()));
    }

    #[test]
    fn a_list_is_followed_to_its_end_or_to_where_it_breaks() {
        let mut met = Vec::new();
        let mut go = |next: fn(u64) -> Result<u64, &'static str>| {
            met.clear();
            let all = walks(10);
            let end = all.begin().follow(Addr::new(1), |at| {
                met.push(at.get());
                next(at.get()).map(Addr::new)
            });
            (end.map_err(|e| e.to_string()), met.clone())
        };
        assert_eq!(go(|at| Ok((at + 1) % 4)), (Ok(()), vec![1, 2, 3]));
        assert_eq!(go(|at| Ok(3 - at)), (Err("has a cycle at 0x1".into()), vec![1, 2]));
        let gone = |at: u64| if at == 2 { Err("gone") } else { Ok(2) };
        assert_eq!(go(gone), (Err("breaks off at 0x2: gone".into()), vec![1, 2]));
    }
}

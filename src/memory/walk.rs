//! Lists that are followed in the dumped process's memory: each ends, whatever the core says.
//!
//! A list in a damaged or crafted core may run in a cycle, lead into another one, or go on
//! through all memory. Each walk remembers what it saw, and all walks of a phase share one
//! budget of steps: thousands of lists that each end in time may not do so together.
//! `tests/all/source_rules.rs` looks that no list is followed without.
//!
//! What is passed by address order (chunks of a heap, objects of a segment) is no list.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::addr::Addr;
use crate::phase::Phase;

/// Why a walk goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The walk was at this node before.
    #[error("has a cycle at {0}")]
    Cycle(Addr),
    /// Another walk of the same kind was.
    #[error("runs into another list at {0}")]
    Met(Addr),
    /// The node is fine, but no more are looked at.
    #[error("is not followed past {at}: more than {most} steps of reading {}", .phase.name())]
    TooMany {
        /// The first node that was not looked at.
        at: Addr,
        /// What the steps were for.
        phase: Phase,
        /// How many were to be had.
        most: u64,
    },
}

/// Why a list was not followed to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken<E: std::fmt::Display> {
    /// It has none, or not where it should.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// A node of it makes no sense or is not in the core.
    #[error("breaks off at {0}: {1}")]
    Unreadable(Addr, E),
}

/// All walks of one phase: the steps that they may still take together, and the nodes
/// that they saw.
#[derive(Debug)]
pub(crate) struct Walks {
    phase: Phase,
    most: u64,
    left: AtomicU64,
    lists: AtomicU32,
    /// Which list was at each node first.
    seen: Mutex<HashMap<Addr, u32>>,
}

impl Walks {
    /// Walks that may take `most` steps in all.
    pub(crate) fn new(phase: Phase, most: usize) -> Walks {
        let most = most as u64;
        Walks { phase, most, left: AtomicU64::new(most), lists: AtomicU32::new(0), seen: Mutex::default() }
    }

    /// Walk a list whose nodes are in no other list of these walks.
    pub(crate) fn begin(&self) -> Walk<'_> {
        let number = self.lists.fetch_add(1, Ordering::Relaxed);
        Walk { walks: self, left: u64::MAX, most: u64::MAX, memory: Memory::Shared(number) }
    }

    /// Walk a list that may share nodes with others: only its own are remembered.
    pub(crate) fn alone(&self) -> Walk<'_> {
        Walk { walks: self, left: u64::MAX, most: u64::MAX, memory: Memory::Own(HashSet::new()) }
    }

    /// The same without a set of nodes, for lists of millions: a cycle is noticed after
    /// three times its nodes at most.
    pub(crate) fn light(&self) -> Walk<'_> {
        let memory = Memory::Mark { node: None, since: 0, until: 1 };
        Walk { walks: self, left: u64::MAX, most: u64::MAX, memory }
    }

    /// Take steps for `work` that is no list but done on the way, such as the words of an
    /// array at `at`.
    pub(crate) fn spend(&self, at: Addr, work: u64) -> Result<(), Stop> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(work));
        taken.map(drop).map_err(|_| {
            self.left.store(0, Ordering::Relaxed);
            Stop::TooMany { at, phase: self.phase, most: self.most }
        })
    }

    /// Whether no step is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// What a walk remembers.
#[derive(Debug)]
enum Memory {
    /// All nodes, together with the other walks; the list's number.
    Shared(u32),
    /// All nodes.
    Own(HashSet<Addr>),
    /// One node, after which come twice as many steps as before it each time (R. P. Brent,
    /// An improved Monte Carlo factorization algorithm, 1980).
    Mark { node: Option<Addr>, since: u64, until: u64 },
}

/// One list that is followed.
#[derive(Debug)]
pub(crate) struct Walk<'w> {
    walks: &'w Walks,
    left: u64,
    most: u64,
    memory: Memory,
}

impl Walk<'_> {
    /// Let this list have so many nodes, whatever the others leave.
    pub(crate) fn at_most(self, nodes: usize) -> Self {
        Walk { left: nodes as u64, most: nodes as u64, ..self }
    }

    /// Whether the node at `at` is to be looked at. To be asked before it is read.
    pub(crate) fn step(&mut self, at: Addr) -> Result<(), Stop> {
        match &mut self.memory {
            Memory::Shared(number) => {
                let mut seen = self.walks.seen.lock().unwrap_or_else(PoisonError::into_inner);
                match seen.get(&at) {
                    Some(before) if before == number => return Err(Stop::Cycle(at)),
                    Some(_) => return Err(Stop::Met(at)),
                    None => {}
                }
                // Nodes that are not looked at are not kept either.
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
        self.left = self.left.checked_sub(1).ok_or(Stop::TooMany { at, phase: self.walks.phase, most: self.most })?;
        self.walks.spend(at, 1)
    }

    /// Visit the nodes from `first` on, to the one behind which comes none. `node` gives
    /// the next node's address, null where there is none.
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

    fn walks(most: usize) -> Walks {
        Walks::new(Phase::Locks, most)
    }

    /// The list in which each node leads to the next one of `nodes`.
    fn over(mut walk: Walk<'_>, nodes: &[u64]) -> Result<(), Stop> {
        nodes.iter().try_for_each(|&at| walk.step(Addr::new(at)))
    }

    #[test]
    fn a_cycle_is_none_of_too_many_and_no_other_list() {
        let all = walks(100);
        assert_eq!(over(all.begin(), &[1, 2, 3]), Ok(()));
        assert_eq!(over(all.begin(), &[4, 5, 4]), Err(Stop::Cycle(Addr::new(4))));
        assert_eq!(over(all.begin(), &[6, 2, 7]), Err(Stop::Met(Addr::new(2))));
        assert_eq!(over(all.alone(), &[1, 2, 3]), Ok(()));
        assert_eq!(over(all.alone(), &[1, 2, 1]), Err(Stop::Cycle(Addr::new(1))));
        let left = Stop::TooMany { at: Addr::new(3), phase: Phase::Locks, most: 2 };
        assert_eq!(over(all.alone().at_most(2), &[1, 2, 3]), Err(left));
        assert_eq!(left.to_string(), "is not followed past 0x3: more than 2 steps of reading locks");
    }

    #[test]
    fn all_walks_share_the_steps() {
        let all = walks(5);
        assert_eq!(over(all.begin(), &[1, 2, 3]), Ok(()));
        let left = Stop::TooMany { at: Addr::new(6), phase: Phase::Locks, most: 5 };
        assert_eq!(over(all.begin(), &[4, 5, 6, 7]), Err(left));
        assert!(all.is_spent());
        assert_eq!(over(all.begin(), &[8]), Err(Stop::TooMany { at: Addr::new(8), phase: Phase::Locks, most: 5 }));
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
                let mut walk = all.light();
                let at = |i: u64| Addr::new(if i < lead { 100 + i } else { 200 + (i - lead) % cycle });
                let taken = (0..).take_while(|&i| walk.step(at(i)).is_ok()).count() as u64;
                assert!(taken >= cycle && taken <= 3 * (lead + cycle), "{lead} {cycle}: {taken}");
                assert!(!all.is_spent());
            }
        }
        assert_eq!(over(walks(1000).light(), &(1..900).collect::<Vec<_>>()), Ok(()));
    }

    #[test]
    fn a_list_is_followed_to_its_end_or_to_where_it_breaks() {
        let mut met = Vec::new();
        let mut go = |next: fn(u64) -> Result<u64, String>| {
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
        let gone = |at: u64| if at == 2 { Err("gone".to_owned()) } else { Ok(2) };
        assert_eq!(go(gone), (Err("breaks off at 0x2: gone".into()), vec![1, 2]));
    }
}

//! Carriers of virtual threads, and waits of the virtual threads that are mounted on them. A carrier's own Thread
//! object does not show what its virtual thread waits for.

use std::collections::{BTreeMap, HashMap};

use super::lent::OnStacks;
use crate::addr::Addr;
use crate::facts::WaitRow;
use crate::runtimes::api::{CARRIERS, Executor, PartyId, WaitFact, WaitOwner};
use crate::runtimes::hotspot::HotSpot;
use crate::words::WaitKind;

/// The class of carriers.
const CARRIER: &str = "jdk.internal.misc.CarrierThread";

/// The class of the object for which a thread parks that waits for a CompletableFuture, and the future's class.
pub(super) const SIGNALLER: &str = "java.util.concurrent.CompletableFuture$Signaller";
const COMPLETABLE: &str = "java.util.concurrent.CompletableFuture";

/// Maximum number of waiters visited per future.
const WAITERS: usize = 1 << 10;

/// States of virtual threads that only lack a carrier, each with a description.
const READY: [(&str, &str); 5] = [
    ("STARTED", "virtual threads that have not begun"),
    ("RUNNABLE", "virtual threads that are ready to go on"),
    ("YIELDED", "virtual threads that are ready to go on"),
    ("UNPARKED", "virtual threads that are ready to go on"),
    ("UNBLOCKED", "virtual threads that are ready to go on"),
];

mod how {
    pub(super) const MOUNTED: &str = "parkBlocker of the virtual thread on the carrier";
    pub(super) const FUTURE: &str = "a CompletableFuture on the stack has the waiter in its list";
}

/// Mounted virtual threads, and those that wait for a carrier.
#[derive(Default)]
pub(in crate::runtimes::hotspot) struct Carried {
    /// Waits of the mounted virtual threads, by their carriers' thread IDs.
    pub(super) blockers: HashMap<u32, WaitRow>,
    /// The scheduler. `None` without carriers.
    pub(super) scheduler: Option<Executor>,
}

impl HotSpot<'_> {
    pub(super) fn carried(&self) -> &Carried {
        self.carried.get_or_init(|| self.read_carried())
    }

    fn read_carried(&self) -> Carried {
        let records = self.all_threads().by_address.values();
        let mut workers: Vec<u32> = records
            .filter(|record| record.object.as_ref().is_some_and(|object| object.class == CARRIER))
            .filter_map(|record| record.tid)
            .collect();
        if workers.is_empty() {
            return Carried::default();
        }
        workers.sort_unstable();
        let (mut blockers, mut busy, mut queued) = (HashMap::new(), Vec::new(), BTreeMap::<&str, u64>::new());
        self.each_virtual_thread(&mut |thread| match thread.carrier {
            Some(tid) => {
                busy.push(tid);
                if let Some(wait) = thread.wait {
                    blockers.entry(tid).or_insert(wait);
                }
            }
            None => {
                if let Some((_, words)) = READY.iter().find(|(state, _)| thread.state == Some(state)) {
                    *queued.entry(words).or_default() += 1;
                }
            }
        });
        busy.sort_unstable();
        busy.dedup();
        let queued = queued.into_iter().map(|(words, count)| (words.to_owned(), count)).collect();
        let kind = CARRIERS.to_owned();
        Carried { blockers, scheduler: Some(Executor { object: Addr::NULL, kind, workers, busy, queued }) }
    }

    /// The wait for a CompletableFuture, by the object for which the thread `tid` is parked. The future is on its
    /// stack.
    pub(super) fn completable(&self, tid: u32, blocker: Addr, stacks: &OnStacks) -> Option<WaitFact> {
        let class = self.classes().class_of(blocker).filter(|class| class.name == SIGNALLER)?;
        let mut futures: Vec<Addr> =
            stacks.by_thread.get(&tid)?.iter().copied().filter(|at| self.has_waiter(*at, blocker)).collect();
        futures.sort_unstable();
        let Some(&future) = futures.first() else {
            return Some(WaitFact { object: blocker, r#type: Some(class.name.clone()), ..WaitFact::default() });
        };
        let r#type = self.class_name(future);
        Some(WaitFact { object: future, r#type, evidence: how::FUTURE, ..WaitFact::default() })
    }

    /// The wait of a mounted virtual thread, if it is not for a CompletableFuture.
    pub(super) fn of_mounted(&self, row: &WaitRow) -> WaitFact {
        let owner = |tid| WaitOwner { party: PartyId::Thread(tid), confidence: row.confidence };
        WaitFact {
            object: row.object,
            r#type: row.r#type.clone(),
            owners: row.owner_tid.map(owner).into_iter().collect(),
            relation: if row.kind == WaitKind::Lock { "held" } else { "" },
            owner_ended: row.owner_ended,
            evidence: how::MOUNTED,
            ..WaitFact::default()
        }
    }

    /// Whether a future has this waiter in its list.
    fn has_waiter(&self, future: Addr, waiter: Addr) -> bool {
        if !self.is_a(future, &[COMPLETABLE]) {
            return false;
        }
        let mut at = self.get(future, "stack");
        for _ in 0..WAITERS {
            match at {
                Some(node) if node == waiter => return true,
                Some(node) => at = self.get(node, "next"),
                None => break,
            }
        }
        false
    }
}

//! Carriers of virtual threads, and waits of the virtual threads that sit on them. A carrier's own object does not say
//! what its virtual thread waits for.

use std::collections::BTreeMap;

use super::lent::OnStacks;
use crate::addr::Addr;
use crate::facts::WaitRow;
use crate::runtimes::api::{CARRIERS, Executor, PartyId, WaitFact, WaitOwner};
use crate::runtimes::hotspot::HotSpot;
use crate::words::WaitKind;

/// The class of carriers.
const CARRIER: &str = "jdk.internal.misc.CarrierThread";

/// What a thread is parked for that waits for a CompletableFuture, and the future's class.
pub(super) const SIGNALLER: &str = "java.util.concurrent.CompletableFuture$Signaller";
const COMPLETABLE: &str = "java.util.concurrent.CompletableFuture";

/// Maximum number of waiters of one future that are looked at.
const WAITERS: usize = 1 << 10;

/// States of virtual threads that only lack a carrier, with what they are.
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

/// Virtual threads, as far as carriers are concerned.
#[derive(Default)]
pub(super) struct Carried {
    /// What each mounted virtual thread is parked for, by its carrier.
    pub(super) blockers: Vec<(u32, WaitRow)>,
    /// The scheduler. `None` without carriers.
    pub(super) scheduler: Option<Executor>,
}

impl HotSpot<'_> {
    pub(super) fn carried(&self) -> Carried {
        let records = self.all_threads().by_address.values();
        let is_carrier = |class: &str| class == CARRIER;
        let mut workers: Vec<u32> = records
            .filter(|record| record.object.as_ref().is_some_and(|object| is_carrier(&object.class)))
            .filter_map(|record| record.tid)
            .collect();
        if workers.is_empty() {
            return Carried::default();
        }
        workers.sort_unstable();
        let (mut blockers, mut busy, mut queued) = (Vec::new(), Vec::new(), BTreeMap::<&str, u64>::new());
        self.each_virtual_thread(&mut |thread| match thread.carrier {
            Some(tid) => {
                busy.push(tid);
                blockers.extend(thread.wait.map(|wait| (tid, wait)));
            }
            None => {
                let ready = READY.iter().find(|(state, _)| thread.state == Some(state));
                if let Some((_, words)) = ready {
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

    /// The wait for a CompletableFuture, by what a thread is parked for. `tid`: whose stack has the future.
    pub(super) fn completable(&self, tid: u32, blocker: Addr, stacks: &OnStacks) -> Option<WaitFact> {
        let class = self.classes().class_of(blocker).filter(|class| class.name == SIGNALLER)?;
        let mut futures: Vec<Addr> =
            stacks.get(&tid)?.iter().copied().filter(|at| self.has_waiter(*at, blocker)).collect();
        futures.sort_unstable();
        let Some(&future) = futures.first() else {
            return Some(WaitFact { object: blocker, r#type: Some(class.name.clone()), ..WaitFact::default() });
        };
        let r#type = self.class_name(future);
        Some(WaitFact { object: future, r#type, evidence: how::FUTURE, ..WaitFact::default() })
    }

    /// The wait of a virtual thread that sits on a carrier, for anything else.
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
        let Some(class) = self.classes().class_of(future) else { return false };
        let mut supers = self.classes().with_superclasses(class.address);
        if !supers.any(|at| self.classes().klass(at).is_some_and(|of| of.name == COMPLETABLE)) {
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

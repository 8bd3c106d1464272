//! Carriers of virtual threads, and waits of the virtual threads that are mounted on them. A carrier's own Thread
//! object does not show what its virtual thread waits for.

use std::collections::{BTreeMap, HashMap};

use super::lent::OnStacks;
use super::wait_facts::activity_in;
use crate::addr::Addr;
use crate::facts::WaitRow;
use crate::runtimes::api::{
    CARRIERS, Executor, LightFrame, LightThread, MethodRole, PartyId, TaskFact, WaitFact, WaitOwner,
};
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

/// The thread that wakes virtual threads whose time is over, since JDK 21.
const UNPARKER: &str = "VirtualThread-unparker";

/// The field with the thread that owns a lock (java.util.concurrent.locks.AbstractOwnableSynchronizer).
const OWNER: &str = "exclusiveOwnerThread";

/// Maximum number of virtual threads that become parties.
const MAX_TASKS: usize = 1 << 16;

/// The name of a method without its parameters.
fn short(name: &str) -> String {
    name.find('(').filter(|at| *at > 0).and_then(|at| name.get(..at)).unwrap_or(name).to_owned()
}

mod how {
    pub(super) const UNMOUNTED: &str = "parkBlocker of the virtual thread";
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
    /// Unmounted virtual threads that run code of the program.
    pub(super) tasks: Vec<TaskFact>,
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
        // Carriers without work end after a while; the thread that wakes virtual threads stays.
        let has_unparker =
            self.all_threads().by_address.values().any(|record| record.name.as_deref() == Some(UNPARKER));
        if workers.is_empty() && !has_unparker {
            return Carried::default();
        }
        workers.sort_unstable();
        let (mut blockers, mut busy, mut queued) = (HashMap::new(), Vec::new(), BTreeMap::<&str, u64>::new());
        let (mut tasks, mut carriers) = (Vec::new(), HashMap::new());
        self.each_virtual_thread(&mut |thread| match thread.carrier {
            Some(tid) => {
                busy.push(tid);
                carriers.insert(thread.address, tid);
                if let Some(wait) = thread.wait {
                    blockers.entry(tid).or_insert(wait);
                }
            }
            None => {
                if let Some((_, words)) = READY.iter().find(|(state, _)| thread.state == Some(state)) {
                    *queued.entry(words).or_default() += 1;
                }
                if tasks.len() < MAX_TASKS {
                    tasks.extend(self.unmounted(&thread));
                }
            }
        });
        busy.sort_unstable();
        busy.dedup();
        let queued = queued.into_iter().map(|(words, count)| (words.to_owned(), count)).collect();
        let kind = CARRIERS.to_owned();
        // A mounted virtual thread is known by its carrier.
        let mounted = |owner: &mut WaitOwner| {
            if let PartyId::Task(object) = owner.party
                && let Some(tid) = carriers.get(&object)
            {
                owner.party = PartyId::Thread(*tid);
            }
        };
        tasks
            .iter_mut()
            .filter_map(|task: &mut TaskFact| task.wait.as_mut())
            .flat_map(|w| &mut w.owners)
            .for_each(mounted);
        let scheduler = Executor { object: Addr::NULL, kind, workers, busy, queued };
        Carried { blockers, scheduler: Some(scheduler).filter(|pool| !pool.workers.is_empty()), tasks }
    }

    /// A virtual thread whose stack is in the heap. `None` if it runs no code of the program.
    fn unmounted(&self, thread: &LightThread) -> Option<TaskFact> {
        let own = |frame: &&LightFrame| frame.activation.method.role == MethodRole::Program;
        let mut places = thread.frames.iter().filter(own).map(|frame| short(&frame.activation.method.name));
        let place = places.next()?;
        let library = thread.frames.iter().take_while(|frame| !own(frame));
        let activity = activity_in(library.map(|frame| frame.activation.method.name.as_str()));
        let number = || thread.id.map(|id| format!("virtual thread #{id}"));
        Some(TaskFact {
            address: thread.address,
            name: thread.name.clone().or_else(number),
            caller: places.find(|caller| *caller != place),
            place: Some(place),
            activity,
            detail: None,
            wait: thread.wait.as_ref().filter(|_| activity.is_none()).map(|row| WaitFact {
                owners: self.owner_of(row).into_iter().collect(),
                evidence: how::UNMOUNTED,
                ..self.of_mounted(row)
            }),
        })
    }

    /// The thread that owns what a thread is parked for. A virtual thread is a task.
    pub(super) fn owner_of(&self, row: &WaitRow) -> Option<WaitOwner> {
        let party = match row.owner_tid {
            Some(tid) => PartyId::Thread(tid),
            None => PartyId::Task(self.get(row.object, OWNER).filter(|_| row.owner_virtual && !row.owner_ended)?),
        };
        Some(WaitOwner { party, confidence: row.confidence })
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

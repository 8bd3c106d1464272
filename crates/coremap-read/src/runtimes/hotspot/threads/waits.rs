//! The waits of threads: for a monitor, for a notification, or to be unparked.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::facts::{HeldRow, WaitRow};
use crate::map::Confidence;
use crate::runtimes::hotspot::classes::Classes;
use crate::runtimes::hotspot::threads::monitors::{HeldLock, LockOwner, Monitors};
use crate::runtimes::hotspot::threads::records::Threads;
use crate::runtimes::hotspot::threads::thread_object::{is_parked, reference};
use crate::words::WaitKind;

/// The field with the owner of a java.util.concurrent lock (AbstractOwnableSynchronizer).
const OWNER: &str = "exclusiveOwnerThread";

mod how {
    pub(super) const PENDING: &str = "JavaThread::_current_pending_monitor";
    pub(super) const WAITING: &str = "JavaThread::_current_waiting_monitor";
    pub(super) const OWNED: &str = "its parkBlocker is a lock that names its owner";
    pub(super) const PARKED: &str = "its parkBlocker";
    pub(super) const INITIALIZATION: &str = "it waits on the class's initialisation lock; InstanceKlass::_init_thread";
}

/// The locks of one VM, by JavaThread.
#[derive(Debug, Default)]
pub struct Locks {
    held: HashMap<Addr, BTreeMap<Addr, HeldLock>>,
    waits: HashMap<Addr, WaitRow>,
}

impl Locks {
    /// Reads what each thread waits for. `monitors` has the locks that it holds.
    pub(super) fn new(classes: &Classes<'_>, threads: &Threads, monitors: Monitors<'_, '_>) -> Locks {
        let wait = |thread: &Addr| Some((*thread, wait(classes, threads, &monitors, *thread)?));
        let waits = threads.by_address.keys().filter_map(wait).collect();
        Locks { waits, held: monitors.into_held() }
    }

    /// Returns what the thread with this JavaThread waits for.
    pub fn wait(&self, thread: Addr) -> Option<WaitRow> {
        self.waits.get(&thread).cloned()
    }

    /// Returns the locks that the thread with this JavaThread holds.
    pub fn held(&self, classes: &Classes<'_>, thread: Addr) -> Vec<HeldRow> {
        let held = self.held.get(&thread).into_iter().flat_map(BTreeMap::values);
        let row = |held: &HeldLock| HeldRow {
            object: held.object,
            r#type: type_of(classes, held.object),
            how: held.how,
            confidence: held.confidence,
        };
        held.map(row).collect()
    }
}

fn wait(classes: &Classes<'_>, threads: &Threads, monitors: &Monitors<'_, '_>, thread: Addr) -> Option<WaitRow> {
    let record = threads.by_address.get(&thread)?;
    if record.hidden {
        return None;
    }
    let java = classes.vm.at("JavaThread", thread);
    let monitor = |field| java.ptr(field).ok().filter(|at| !at.is_null());
    if let Some(at) = monitor("_current_pending_monitor")
        && let Some(object) = monitors.object(at)
    {
        let wait = row(classes, WaitKind::Lock, object, how::PENDING, Confidence::Exact);
        return Some(match monitors.owner(at) {
            Some(LockOwner::Thread(owner)) => threads.owned(wait, owner),
            // A number of no JavaThread.
            Some(LockOwner::Number(id)) => {
                WaitRow { owner_managed_id: u32::try_from(id).ok(), owner_virtual: true, ..wait }
            }
            None => wait,
        });
    }
    if let Some(object) = monitor("_current_waiting_monitor").and_then(|at| monitors.object(at)) {
        if let Some(of) = classes.initialization(object) {
            let wait = row(classes, WaitKind::ClassInit, of.mirror, how::INITIALIZATION, Confidence::Exact);
            let class = Some(printable(&of.class.name).into_owned());
            return Some(threads.owned(WaitRow { class, ..wait }, of.thread));
        }
        return Some(row(classes, WaitKind::Notify, object, how::WAITING, Confidence::Exact));
    }
    let object = record.object.as_ref().filter(|object| object.status.is_some_and(is_parked))?;
    Some(parked(classes, threads, object.blocker?))
}

/// Returns the wait of a thread that is parked for `blocker`.
pub(super) fn parked(classes: &Classes<'_>, threads: &Threads, blocker: Addr) -> WaitRow {
    let owner = classes.class_of(blocker).and_then(|class| reference(classes, &class, blocker, OWNER));
    let Some(owner) = owner else {
        return row(classes, WaitKind::Park, blocker, how::PARKED, Confidence::Exact);
    };
    let wait = row(classes, WaitKind::Lock, blocker, how::OWNED, Confidence::Exact);
    match threads.by_object.get(&owner) {
        Some(&thread) => threads.owned(wait, thread),
        None => threads.owned_by_object(classes, wait, owner),
    }
}

fn row(classes: &Classes<'_>, kind: WaitKind, object: Addr, how: &'static str, confidence: Confidence) -> WaitRow {
    WaitRow { kind, object, r#type: type_of(classes, object), how, confidence, ..WaitRow::default() }
}

fn type_of(classes: &Classes<'_>, object: Addr) -> Option<String> {
    let class = classes.class_of(object)?;
    classes.keep_class(object);
    Some(printable(&class.name).into_owned())
}

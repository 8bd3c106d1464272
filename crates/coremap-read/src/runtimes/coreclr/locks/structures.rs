//! What a monitor or event is part of: SemaphoreSlim, ManualResetEventSlim and what is built on them.
//!
//! The library waits in Monitor.Wait on a private object. Its owner is not found from that object, but it is a local of
//! the waiting methods, so it is among the words of the thread's stack. A field that refers back to the private object
//! proves it, whatever else the stack contains. Sources: System.Private.CoreLib: SemaphoreSlim.cs,
//! ManualResetEventSlim.cs, Task.cs; System.Threading: CountdownEvent, Barrier, BlockingCollection.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::locks::objects::{LockClass, Objects};
use crate::runtimes::coreclr::locks::rows::semaphore_nodes;
use crate::words::WaitKind;

/// Field of a SemaphoreSlim with the object that it locks, by version.
const SEMAPHORE_LOCK: [&str; 2] = ["m_lockObjAndDisposed", "m_lockObj"];

/// Field of a ManualResetEventSlim with the object that it locks.
const EVENT_LOCK: &str = "m_lock";

/// Field of a task with who waits for it.
const CONTINUATION: &str = "m_continuationObject";

/// A waiter in the queue of a SemaphoreSlim.
pub(super) const TASK_NODE: &str = "System.Threading.SemaphoreSlim+TaskNode";

/// Types of the objects that the library locks. Anything else is the program's own.
const PRIVATE: [&str; 3] =
    ["System.Object", "System.Runtime.CompilerServices.StrongBox<System.Boolean>", "System.Threading.Lock"];

/// Structures built on a SemaphoreSlim or an event: the class, the field with it, and what a thread waits for there.
const BUILT: [(LockClass, &str, WaitKind); 5] = [
    (LockClass::BlockingCollection, "_occupiedNodes", WaitKind::Take),
    (LockClass::BlockingCollection, "_freeNodes", WaitKind::Add),
    (LockClass::CountdownEvent, "_event", WaitKind::Countdown),
    (LockClass::Barrier, "_oddEvent", WaitKind::Barrier),
    (LockClass::Barrier, "_evenEvent", WaitKind::Barrier),
];

/// What a thread waits for, and the object.
pub(super) type Awaited = (WaitKind, Addr);

/// Whether the library may lock an object of this type for one of its own structures.
pub(super) fn may_be_private(objects: &Objects<'_, '_>, object: Addr) -> bool {
    objects.class_of(object).is_none_or(|class| PRIVATE.contains(&class.name.as_str()))
}

/// Structures that are built on a SemaphoreSlim or an event, by its address, from a walk over the heap.
pub(super) fn built(objects: &Objects<'_, '_>) -> HashMap<Addr, Awaited> {
    let mut out = HashMap::new();
    for (class, field, kind) in BUILT {
        for &outer in objects.of(class) {
            out.extend(objects.reference(outer, field).map(|inner| (inner, (kind, outer))));
        }
    }
    out
}

/// Returns what a thread waits for while it is in Monitor.Wait on one of `inner`: a private object of the library, or
/// the object's Lock. `None` if no object on the stack refers to one of these. `words`: words of the stack, innermost
/// first.
pub(super) fn by_stack(objects: &Objects<'_, '_>, words: &[u64], inner: &[Addr]) -> Option<Awaited> {
    let candidates = Candidates::of(objects, words);
    let has = |object: Addr, field: &str| objects.reference(object, field).is_some_and(|at| inner.contains(&at));
    let outer = |of: Addr| {
        candidates.list.iter().find_map(|&(object, class)| {
            let rows = BUILT.iter().filter(|(known, ..)| *known == class);
            rows.filter(|(_, field, _)| objects.reference(object, field) == Some(of)).map(|b| (b.2, object)).next()
        })
    };
    candidates.list.iter().find_map(|&(object, class)| match class {
        LockClass::SemaphoreSlim if SEMAPHORE_LOCK.iter().any(|field| has(object, field)) => {
            Some(outer(object).unwrap_or((WaitKind::Semaphore, object)))
        }
        LockClass::ManualResetEventSlim if has(object, EVENT_LOCK) => {
            Some(outer(object).unwrap_or((WaitKind::Event, object)))
        }
        // Without the task on the stack, as in Task.WaitAll, a walk over the heap finds it.
        LockClass::Blocked if has(object, EVENT_LOCK) => {
            let task = candidates.all(LockClass::Task).find(|&task| continues_with(objects, task, object))?;
            if !objects.is(task, TASK_NODE) {
                return Some((WaitKind::Task, task));
            }
            // A thread that came behind an async waiter of a semaphore.
            let slim = candidates.all(LockClass::SemaphoreSlim).find(|&slim| is_queued(objects, slim, task))?;
            Some(outer(slim).unwrap_or((WaitKind::Semaphore, slim)))
        }
        _ => None,
    })
}

/// Whether a node is in the queue of a SemaphoreSlim.
fn is_queued(objects: &Objects<'_, '_>, slim: Addr, node: Addr) -> bool {
    let walks = Walks::new(Phase::Locks, limits::MAX_WAITERS);
    semaphore_nodes(objects, &walks, slim).contains(&node)
}

/// Whether an event is among the continuations of a task.
fn continues_with(objects: &Objects<'_, '_>, task: Addr, event: Addr) -> bool {
    let Some(next) = objects.reference(task, CONTINUATION) else { return false };
    let left = AtomicU64::new(limits::MAX_CONTINUATIONS as u64);
    next == event || objects.is_list(next) && objects.elements(next, &left).contains(&event)
}

/// Objects of the library on a stack.
pub(super) struct Candidates {
    /// Each object once, innermost first, with its class.
    pub(super) list: Vec<(Addr, LockClass)>,
}

impl Candidates {
    pub(super) fn of(objects: &Objects<'_, '_>, words: &[u64]) -> Candidates {
        let mut seen = HashSet::new();
        let new = words.iter().map(|&word| Addr::new(word)).filter(|&at| at.is_aligned(8) && seen.insert(at));
        Candidates { list: new.filter_map(|at| Some((at, objects.part_of_word(at)?))).collect() }
    }

    /// The objects of a class.
    pub(super) fn all(&self, wanted: LockClass) -> impl Iterator<Item = Addr> + '_ {
        self.list.iter().filter(move |(_, class)| *class == wanted).map(|(at, _)| *at)
    }
}

//! Locks that are held or waited for, with owners and waiters, from the heap alone.
//!
//! All waits of managed code are in the library: the record of a thread has the objects that it waits for, and each
//! object has a list of its waiters. A monitor is a word before its object or, from the first contention on, a Lock in
//! a table. Monitor.Wait has a Condition with a list of threads, each with an event.
//!
//! Sources: System.Private.CoreLib: Threading/WaitSubsystem.*, Lock.cs, Condition.cs, Monitor.NativeAot.cs,
//! SyncTable.cs, SemaphoreSlim.cs, ManualResetEventSlim.cs.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::map::Confidence;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{Heap as _, ListedLock, LockParty};
use crate::runtimes::clr_gc::COUNT_AT;
use crate::runtimes::nativeaot::census::{Census, Part};
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::threads_objects::{ThreadObject, ThreadObjects};
use crate::words::{LockKind, WaitKind};

/// Fields of a thin lock: its owner, and how often the owner entered it, less one.
const THIN_OWNER: u32 = 0xffff;
const THIN_LEVEL: (u32, u32) = (16, 0x3f);

/// Lock._state: it is held.
const HELD: u32 = 1;

/// Offset of an array's first element.
const ELEMENTS: u64 = 16;

/// Number of objects that one thread can wait for.
const MAX_WAITED: u64 = 64;

/// Type of the event of a thread in Task.Wait.
const BLOCKED: &str = "System.Threading.Tasks.Task.SetOn";

/// Type of the entries in the queue of a SemaphoreSlim.
const TASK_NODE: &str = "System.Threading.SemaphoreSlim.TaskNode";

/// What a thread waits for.
#[derive(Clone, Debug)]
pub(super) struct ThreadWait {
    pub(super) kind: WaitKind,
    pub(super) object: Addr,
    pub(super) owner: Option<LockParty>,
}

/// All locks of a runtime that are held or waited for.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    /// Those with most waiters first.
    pub(super) locks: Vec<ListedLock>,
    /// What each system thread waits for. Without threads that wait for any of several objects.
    pub(super) waits: HashMap<u32, ThreadWait>,
}

struct Reader<'a, 'p> {
    heap: &'a Heap<'p>,
    census: &'a Census,
    threads: &'a ThreadObjects,
    /// Objects that threads wait for now, with these threads.
    waiting: HashMap<Addr, Vec<usize>>,
    /// Objects with a Lock in the table: the Lock of each, and the object of each Lock.
    lock_of: HashMap<Addr, Addr>,
    object_of: HashMap<Addr, Addr>,
    /// Conditions by their Lock. Up to 10.0, the Lock does not refer to its condition.
    condition_of: HashMap<Addr, Addr>,
    /// Events inside other locks, which are no locks of their own.
    inner: HashSet<Addr>,
    walks: Walks,
    out: Vec<ListedLock>,
}

impl LockTable {
    pub(super) fn read(heap: &Heap<'_>, census: &Census, threads: &ThreadObjects) -> LockTable {
        let _phase = heap.runtime().process.enter(Phase::Locks);
        let mut reader = Reader {
            heap,
            census,
            threads,
            waiting: HashMap::new(),
            lock_of: HashMap::new(),
            object_of: HashMap::new(),
            condition_of: HashMap::new(),
            inner: HashSet::new(),
            walks: Walks::new(Phase::Locks, limits::MAX_LOCK_OBJECTS),
            out: Vec::new(),
        };
        let (choices, sleepers) = reader.records();
        reader.table();
        reader.thin();
        let taken = reader.slim();
        reader.monitors(&taken);
        reader.joins();
        reader.handles();
        let mut locks = reader.out;
        locks.sort_by_key(|lock| (std::cmp::Reverse(lock.waiters.len()), lock.object));
        let mut waits: HashMap<u32, ThreadWait> = HashMap::new();
        for lock in &locks {
            for tid in lock.waiters.iter().filter_map(|party| party.tid).filter(|tid| !choices.contains(tid)) {
                let wait = ThreadWait { kind: lock.kind.wait(), object: lock.object, owner: lock.owner.clone() };
                let known = waits.entry(tid).or_insert_with(|| wait.clone());
                // Of several objects that must all be signalled, one that is owned decides.
                if known.owner.is_none() && wait.owner.is_some() {
                    *known = wait;
                }
            }
        }
        for (tid, object) in sleepers {
            waits.entry(tid).or_insert(ThreadWait { kind: WaitKind::Sleep, object, owner: None });
        }
        LockTable { locks, waits }
    }
}

fn party(thread: &ThreadObject) -> LockParty {
    LockParty {
        address: Some(thread.object),
        tid: thread.tid,
        managed_id: Some(thread.id).filter(|id| *id != 0),
        name: thread.name.clone(),
    }
}

impl Reader<'_, '_> {
    /// Reads what each thread waits for. Returns the threads that wait for any of several objects, and those that
    /// sleep, with their objects.
    fn records(&mut self) -> (HashSet<u32>, Vec<(u32, Addr)>) {
        let (mut choices, mut sleepers) = (HashSet::new(), Vec::new());
        let runtime = self.heap.runtime();
        for (i, thread) in self.threads.all.iter().enumerate() {
            let (Some(info), Some(tid)) = (thread.wait, thread.tid) else { continue };
            let view = runtime.view("AotThreadWaitInfo", info);
            // The record must lead back to its thread.
            let own = view.ptr("_thread") == Ok(thread.object);
            let waits = view.u8("_waitSignalState").is_ok_and(|state| state < 2);
            let Ok(count) = view.u32("_waitedCount") else { continue };
            if !own || !waits || u64::from(count) > MAX_WAITED {
                continue;
            }
            if count == 0 {
                sleepers.push((tid, thread.object));
            }
            if count > 1 && view.u8("_isWaitForAll").is_ok_and(|all| all == 0) {
                choices.insert(tid);
            }
            let Some(array) = self.heap.held("AotThreadWaitInfo", info, "_waitedObjects") else { continue };
            let places = (0..u64::from(count)).map(|n| array.saturating_add(ELEMENTS + 8 * n));
            for object in places.filter_map(|at| runtime.memory().ptr(at).ok()).filter(|at| !at.is_null()) {
                self.waiting.entry(object).or_default().push(i);
            }
        }
        (choices, sleepers)
    }

    /// Reads which objects have a Lock, and the Conditions.
    fn table(&mut self) {
        let runtime = self.heap.runtime();
        let Ok(size) = runtime.layout.size("AotSyncEntry") else { return };
        for table in self.census.of(Part::SyncTable) {
            let count = runtime.memory().u32(table.addr.saturating_add(COUNT_AT)).map_or(0, u64::from);
            // The table's own size bounds it.
            for i in 0..count.min(table.size.checked_div(size).unwrap_or(0)) {
                let entry = table.addr.saturating_add(ELEMENTS + size * i);
                let Some(handle) = self.heap.held("AotSyncEntry", entry, "Owner") else { continue };
                let object = runtime.memory().ptr(handle.align_down(2)).ok().filter(|object| !object.is_null());
                let lock = self.heap.held("AotSyncEntry", entry, "Lock");
                if let Some((object, lock)) = object.zip(lock).filter(|(_, lock)| self.census.is(Part::Lock, *lock)) {
                    self.lock_of.insert(object, lock);
                    self.object_of.insert(lock, object);
                }
            }
        }
        for condition in self.census.of(Part::Condition) {
            if let Some(lock) = self.heap.held("AotCondition", condition.addr, "_lock") {
                self.condition_of.insert(lock, condition.addr);
            }
        }
    }

    fn add(&mut self, lock: ListedLock) {
        if lock.owner.is_some() || !lock.waiters.is_empty() || lock.async_waiters > 0 {
            self.out.push(lock);
        }
    }

    fn lock(&self, kind: LockKind, object: Addr, owner: Option<LockParty>, times: u32, on: &[usize]) -> ListedLock {
        let times = if owner.is_some() { times } else { 0 };
        let waiters = on.iter().filter_map(|&i| self.threads.all.get(i)).map(party).collect();
        ListedLock { kind, object, owner, times, waiters, async_waiters: 0, confidence: Confidence::Exact }
    }

    /// The object behind a WaitHandle: through its SafeWaitHandle's GC handle.
    fn waitable(&self, handle: Addr) -> Option<Addr> {
        let safe = self.heap.held("AotWaitHandle", handle, "_waitHandle")?;
        let slot = self.heap.held("AotSafeHandle", safe, "handle")?;
        self.heap.runtime().memory().ptr(slot).ok().filter(|object| !object.is_null())
    }

    /// Threads that wait for a WaitHandle, in the order of its list.
    fn on(&self, handle: Addr) -> Vec<usize> {
        let Some(object) = self.waitable(handle) else { return Vec::new() };
        let Some(all) = self.waiting.get(&object) else { return Vec::new() };
        let mut order = Vec::new();
        let first = self.heap.held("AotWaitableObject", object, "_waitersHead").unwrap_or(Addr::NULL);
        let end = self.walks.begin_own_set().follow(first, |node| {
            let info = self.heap.held("AotWaitedListNode", node, "_waitInfo");
            order.extend(info.and_then(|info| self.heap.held("AotThreadWaitInfo", info, "_thread")));
            Ok::<_, std::convert::Infallible>(self.heap.held("AotWaitedListNode", node, "_next").unwrap_or(Addr::NULL))
        });
        // The threads' own records have all that a damaged list leaves out.
        end.ok();
        let place = |i: &usize| {
            let object = self.threads.all.get(*i).map(|thread| thread.object);
            order.iter().position(|at| Some(*at) == object).unwrap_or(order.len())
        };
        let mut out = all.clone();
        out.sort_by_key(place);
        out.dedup();
        out
    }

    /// The event that threads wait for to enter a Lock, and the threads that wait on its Condition.
    fn parts_of(&mut self, lock: Addr) -> (Option<Addr>, Vec<usize>) {
        let heap = self.heap;
        let own = heap.held("AotLock", lock, "_waitEvent");
        let in_lock = own.filter(|own| self.census.is(Part::Condition, *own));
        let condition = in_lock.or_else(|| self.condition_of.get(&lock).copied());
        let event = match in_lock {
            Some(condition) => heap.held("AotCondition", condition, "_waitEvent"),
            None => own,
        };
        self.inner.extend(event);
        let Some(condition) = condition else { return (event, Vec::new()) };
        let mut events = Vec::new();
        let first = heap.held("AotCondition", condition, "_waitersHead").unwrap_or(Addr::NULL);
        let end = self.walks.begin_own_set().follow(first, |waiter| {
            events.extend(heap.held("AotConditionWaiter", waiter, "ev"));
            Ok::<_, std::convert::Infallible>(heap.held("AotConditionWaiter", waiter, "next").unwrap_or(Addr::NULL))
        });
        // If the list is damaged, use the elements before the damage.
        end.ok();
        self.inner.extend(events.iter().copied());
        (event, events.into_iter().flat_map(|event| self.on(event)).collect())
    }

    /// Monitors without a Lock object.
    fn thin(&mut self) {
        for &(object, word) in &self.census.thin {
            // Other words before an object may look the same; the owner must be a thread that exists.
            let owner = self.threads.with_id(word & THIN_OWNER).map(party);
            let times = (word >> THIN_LEVEL.0 & THIN_LEVEL.1) + 1;
            let lock = self.lock(LockKind::Monitor, object, owner, times, &[]);
            self.add(lock);
        }
    }

    /// Semaphores and events that are made of a monitor. Returns their Locks.
    fn slim(&mut self) -> HashSet<Addr> {
        let (heap, census) = (self.heap, self.census);
        let mut taken = HashSet::new();
        for slim in census.of(Part::SemaphoreSlim) {
            let own = heap.held("AotSemaphoreSlim", slim.addr, "m_lockObjAndDisposed");
            let lock = own.and_then(|own| self.lock_of.get(&own).copied());
            taken.extend(lock);
            let waiting = lock.map_or_else(Vec::new, |lock| self.parts_of(lock).1);
            let queued = heap.held("AotSemaphoreSlim", slim.addr, "m_asyncHead");
            let async_waiters = queued.map_or(0, |first| self.queue(first));
            let row = self.lock(LockKind::SemaphoreSlim, slim.addr, None, 0, &waiting);
            self.add(ListedLock { async_waiters, ..row });
        }
        // The task that a thread waits for, by the thread's event.
        let continuations = census
            .of(Part::Task)
            .iter()
            .filter_map(|task| Some((heap.held("AotTask", task.addr, "m_continuationObject")?, task.addr)));
        let tasks: HashMap<Addr, Addr> = continuations.collect();
        for event in census.of(Part::EventSlim) {
            let held = heap.references_of(event.addr);
            let Some(lock) = held.iter().find_map(|(_, at)| self.lock_of.get(at).copied()) else { continue };
            taken.insert(lock);
            let waiting = self.parts_of(lock).1;
            let blocked = heap.name_at(event.addr).is_some_and(|name| name.starts_with(BLOCKED));
            let task = tasks.get(&event.addr).filter(|_| blocked);
            let (kind, object) = task.map_or((LockKind::EventSlim, event.addr), |task| (LockKind::Task, *task));
            let row = self.lock(kind, object, None, 0, &waiting);
            self.add(row);
        }
        taken
    }

    /// Number of entries in the queue of a SemaphoreSlim. They refer to each other.
    fn queue(&self, first: Addr) -> u64 {
        let mut seen = HashSet::from([first]);
        let mut work = vec![first];
        while let Some(at) = work.pop() {
            if self.walks.spend(at, 1).is_err() {
                break;
            }
            for (_, next) in self.heap.references_of(at) {
                if !seen.contains(&next) && self.heap.name_at(next).is_some_and(|name| name == TASK_NODE) {
                    seen.insert(next);
                    work.push(next);
                }
            }
        }
        seen.len() as u64
    }

    /// Locks, and monitors that have one.
    fn monitors(&mut self, taken: &HashSet<Addr>) {
        let census = self.census;
        for found in census.of(Part::Lock) {
            let lock = found.addr;
            let (event, waiting) = self.parts_of(lock);
            if taken.contains(&lock) {
                continue;
            }
            let blocked = event.map_or_else(Vec::new, |event| self.on(event));
            let object = self.object_of.get(&lock).copied();
            let kind = if object.is_some() { LockKind::Monitor } else { LockKind::Lock };
            let number = |field| self.heap.number("AotLock", lock, field).unwrap_or(0);
            let held = number("_state") & HELD != 0;
            let id = number("_owningThreadId");
            let unnamed = || LockParty { managed_id: Some(id), ..LockParty::default() };
            let owner = held.then(|| self.threads.with_id(id).map_or_else(unnamed, party));
            let times = number("_recursionCount").saturating_add(1);
            let row = self.lock(kind, object.unwrap_or(lock), owner, times, &blocked);
            self.add(row);
            let row = self.lock(LockKind::MonitorWait, object.unwrap_or(lock), None, 0, &waiting);
            self.add(row);
        }
    }

    /// Threads that others wait for to end. A Thread has one event, which is set at its end.
    fn joins(&mut self) {
        let census = self.census;
        for thread in &self.threads.all {
            let held = self.heap.references_of(thread.object);
            for (_, event) in held.into_iter().filter(|(_, at)| census.is(Part::Handle, *at)) {
                self.inner.insert(event);
                let on = self.on(event);
                if !on.is_empty() {
                    let row = self.lock(LockKind::Join, thread.object, Some(party(thread)), 0, &on);
                    self.add(row);
                }
            }
        }
    }

    /// Mutexes, events and semaphores.
    fn handles(&mut self) {
        let census = self.census;
        for handle in census.of(Part::Handle) {
            if self.inner.contains(&handle.addr) {
                continue;
            }
            let Some(object) = self.waitable(handle.addr) else { continue };
            let name = self.heap.type_name(handle.kind);
            let kind = match name.rsplit('.').next() {
                Some("Mutex") => LockKind::Mutex,
                Some("Semaphore") => LockKind::Semaphore,
                _ => LockKind::Event,
            };
            let owned =
                self.heap.held("AotWaitableObject", object, "_ownershipInfo").filter(|_| kind == LockKind::Mutex);
            let owner = owned.and_then(|info| {
                let thread = self.threads.at(self.heap.held("AotOwnershipInfo", info, "_thread")?)?;
                Some((party(thread), self.heap.number("AotOwnershipInfo", info, "_reacquireCount")?.saturating_add(1)))
            });
            let (owner, times) = owner.unzip();
            let on = self.on(handle.addr);
            let row = self.lock(kind, handle.addr, owner, times.unwrap_or(0), &on);
            self.add(row);
        }
    }
}

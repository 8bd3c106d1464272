//! Locks from .NET 11 on. There, managed code waits only for objects.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::locks::objects::{LockClass, Objects};
use crate::runtimes::coreclr::locks::reader_writer::{self, Readers};
use crate::runtimes::coreclr::locks::structures::TASK_NODE;
use crate::runtimes::coreclr::locks::threads::Threads;
use crate::runtimes::coreclr::locks::waits::Waits;
use crate::runtimes::coreclr::locks::{Lock, lock_object};
use crate::runtimes::coreclr::sync_blocks::SyncBlock;
use crate::words::LockKind;

const CONDITION: &str = "System.Threading.Condition";
const NAMED_MUTEX: &str = "System.Threading.WaitSubsystem+NamedMutex";

/// SafeHandle._state: its handle was given back.
const CLOSED: u32 = 1;

/// WaitableObject._type.
const SEMAPHORE: u8 = 2;
const MUTEX: u8 = 3;

struct Rows<'a, 't, 'p> {
    objects: &'a Objects<'t, 'p>,
    threads: &'a Threads<'a>,
    waits: Waits,
    walks: Walks,
    out: Vec<Lock>,
    /// Events inside other locks, which are no locks of their own.
    inner: HashSet<Addr>,
}

/// Reads all locks. Returns them with the addresses of the Threads that wait for any of several objects.
pub(super) fn read(
    objects: &Objects<'_, '_>,
    threads: &Threads<'_>,
    blocks: &[SyncBlock],
    notes: &mut Vec<String>,
) -> (Vec<Lock>, Vec<Addr>) {
    let mut rows = Rows {
        objects,
        threads,
        waits: Waits::read(objects, threads),
        walks: Walks::new(Phase::Locks, limits::MAX_LOCK_OBJECTS),
        out: Vec::new(),
        inner: HashSet::new(),
    };
    if rows.waits.disagree > 0 {
        notes.push(format!("{} lists of waiting threads disagree with the threads' records", rows.waits.disagree));
    }
    rows.thin(blocks);
    rows.monitors(blocks);
    rows.joins();
    rows.reader_writers();
    rows.handles();
    let choices = rows.waits.choices.iter().filter_map(|&i| threads.named(i).address).collect();
    (rows.out, choices)
}

impl Rows<'_, '_, '_> {
    fn add(&mut self, lock: Lock) {
        if lock.is_used() {
            self.out.push(lock);
        }
    }

    /// Threads that wait for a WaitHandle, through its SafeWaitHandle's GC handle.
    fn on(&self, handle: Addr) -> Vec<usize> {
        waitable(self.objects, handle).map_or_else(Vec::new, |object| self.waits.on(object).to_vec())
    }

    /// The event that threads wait for to enter a Lock, and the threads that wait on its condition.
    fn condition(&mut self, lock: Addr) -> (Option<Addr>, Vec<usize>) {
        let Some(own) = self.objects.reference(lock, "_waitEventOrCondition") else { return (None, Vec::new()) };
        if !self.objects.is(own, CONDITION) {
            self.inner.insert(own);
            return (Some(own), Vec::new());
        }
        let objects = self.objects;
        let mut events = Vec::new();
        let first = objects.reference(own, "_waitersHead").unwrap_or(Addr::NULL);
        let end = self.walks.begin_own_set().follow(first, |waiter| {
            events.extend(objects.reference(waiter, "ev"));
            Ok::<_, std::convert::Infallible>(objects.reference(waiter, "next").unwrap_or(Addr::NULL))
        });
        // If the list is damaged, use the elements before the damage.
        end.ok();
        self.inner.extend(events.iter().copied());
        let waiting = events.into_iter().flat_map(|event| self.on(event)).collect();
        let event = objects.reference(own, "_waitEvent");
        self.inner.extend(event);
        (event, waiting)
    }

    /// Monitors without a Lock object: in the header, or in a sync block to which the header's lock moved.
    fn thin(&mut self, blocks: &[SyncBlock]) {
        let objects = self.objects;
        let without_lock = blocks.iter().filter(|b| b.lock.is_none());
        let moved = without_lock.filter_map(|b| Some((b.object, objects.thin_lock(b.thin)?)));
        for (object, thin) in objects.thin().iter().copied().chain(moved) {
            let owner = self.threads.owner(thin.owner);
            self.add(Lock::new(LockKind::Monitor, object).owned(owner, thin.times));
        }
    }

    fn monitors(&mut self, blocks: &[SyncBlock]) {
        let objects = self.objects;
        let owned: HashMap<Addr, Addr> = blocks.iter().filter_map(|b| Some((b.lock?, b.object))).collect();
        let locks: HashMap<Addr, Addr> = owned.iter().map(|(lock, object)| (*object, *lock)).collect();
        let mut taken: HashSet<Addr> = HashSet::new();
        for &slim in objects.of(LockClass::SemaphoreSlim) {
            let lock = objects.reference(slim, "m_lockObjAndDisposed").and_then(|o| locks.get(&o).copied());
            taken.extend(lock);
            let mut waiting = lock.map_or_else(Vec::new, |lock| self.condition(lock).1);
            let async_waiters = self.async_waiters(slim, &mut waiting);
            let waiters = self.threads.all_named(&waiting);
            self.add(Lock { waiters, async_waiters, ..Lock::new(LockKind::SemaphoreSlim, slim) });
        }
        let events = objects.of(LockClass::ManualResetEventSlim).iter().map(|&at| (at, false));
        for (event, blocked) in events.chain(objects.of(LockClass::Blocked).iter().map(|&at| (at, true))) {
            let Some(lock) = objects.reference(event, "m_lock").filter(|lock| taken.insert(*lock)) else { continue };
            let waiting = self.condition(lock).1;
            let waiters = self.threads.all_named(&waiting);
            for lock in event_locks(objects, event, blocked) {
                self.add(Lock { waiters: waiters.clone(), ..lock });
            }
        }
        for &lock in objects.of(LockClass::Lock).iter().filter(|lock| !taken.contains(lock)) {
            let (event, in_wait) = self.condition(lock);
            let row = lock_object(objects, self.threads, lock, owned.get(&lock).copied());
            let waiting = event.map_or_else(Vec::new, |event| self.on(event));
            let waiters = self.threads.all_named(&waiting);
            self.add(Lock { waiters, ..row.clone() });
            if !in_wait.is_empty() {
                let waiters = self.threads.all_named(&in_wait);
                self.add(Lock { waiters, kind: LockKind::MonitorWait, ..row });
            }
        }
    }

    /// Number of async methods in the queue of a SemaphoreSlim. Adds the threads that wait in it with an event.
    fn async_waiters(&mut self, slim: Addr, waiting: &mut Vec<usize>) -> u64 {
        let objects = self.objects;
        let mut count = 0;
        for node in semaphore_nodes(objects, &self.walks, slim) {
            let event = objects.reference(node, "m_continuationObject");
            let lock =
                event.filter(|&e| objects.tasks_of(e).contains(&node)).and_then(|e| objects.reference(e, "m_lock"));
            let threads = lock.map_or_else(Vec::new, |lock| self.condition(lock).1);
            count += u64::from(threads.is_empty());
            waiting.extend(threads);
        }
        count
    }

    /// Threads that wait for another one to end.
    fn joins(&mut self) {
        for i in 0..self.threads.list.len() {
            let Some(object) = self.threads.object(i) else { continue };
            let Some(event) = self.objects.reference(object, "_joinEvent") else { continue };
            self.inner.insert(event);
            let waiting = self.on(event);
            if !waiting.is_empty() {
                let waiters = self.threads.all_named(&waiting);
                let joined = self.threads.named(i);
                self.add(Lock { waiters, owner: Some(joined), ..Lock::new(LockKind::Join, object) });
            }
        }
    }

    fn reader_writers(&mut self) {
        let objects = self.objects;
        let readers = Readers::default();
        for &lock in objects.of(LockClass::ReaderWriterLockSlim) {
            let mut waiting = Vec::new();
            for event in reader_writer::EVENTS.iter().filter_map(|field| objects.reference(lock, field)) {
                self.inner.insert(event);
                waiting.extend(self.on(event));
            }
            let waiters = self.threads.all_named(&waiting);
            self.add(Lock { waiters, ..readers.lock(objects, self.threads, lock) });
        }
        let mut reader_events = HashSet::new();
        for &lock in objects.of(LockClass::ReaderWriterLock) {
            let mut waiting = Vec::new();
            if let Some(event) = objects.reference(lock, "_readerEvent") {
                reader_events.insert(event);
                if let Some(lock) = objects.reference(event, "m_lock") {
                    waiting.extend(self.condition(lock).1);
                }
            }
            if let Some(event) = objects.reference(lock, "_writerEvent") {
                self.inner.insert(event);
                waiting.extend(self.on(event));
            }
            let owner = objects.u32(lock, "_writerID").filter(|&id| id as i32 > 0).unwrap_or(0);
            let level = objects.at(lock, "_writerLevel").and_then(|at| objects.types.memory.u32(at).ok()).unwrap_or(0);
            let waiters = self.threads.all_named(&waiting);
            let row = Lock::new(LockKind::ReaderWriter, lock).owned(self.threads.owner(owner), level & 0xffff);
            self.add(Lock { waiters, ..row });
        }
        // These events are no locks of their own.
        self.out.retain(|row| !reader_events.contains(&row.object));
    }

    /// Mutexes, events and semaphores that the program made.
    fn handles(&mut self) {
        let objects = self.objects;
        for &handle in objects.of(LockClass::Handle).iter().filter(|at| !self.inner.contains(at)).collect::<Vec<_>>() {
            let Some(object) = waitable(objects, handle) else { continue };
            let Some(lock) = handle_lock(objects, self.threads, object, handle) else { continue };
            let waiters = self.threads.all_named(self.waits.on(object));
            self.add(Lock { waiters, ..lock });
        }
    }
}

/// The tasks in the queue of a SemaphoreSlim.
pub(super) fn semaphore_nodes(objects: &Objects<'_, '_>, walks: &Walks, slim: Addr) -> Vec<Addr> {
    let mut nodes = Vec::new();
    let first = objects.reference(slim, "m_asyncHead").unwrap_or(Addr::NULL);
    let end = walks.begin_own_set().follow(first, |node| {
        nodes.push(node);
        Ok::<_, std::convert::Infallible>(objects.reference(node, "Next").unwrap_or(Addr::NULL))
    });
    // If the list is damaged, use the elements before the damage.
    end.ok();
    nodes
}

/// The tasks that the event of a blocked thread belongs to, or the event itself.
pub(super) fn event_locks(objects: &Objects<'_, '_>, event: Addr, blocked: bool) -> Vec<Lock> {
    let tasks = objects.tasks_of(event);
    if tasks.is_empty() {
        let kind = if blocked { LockKind::Task } else { LockKind::EventSlim };
        return vec![Lock::new(kind, event)];
    }
    // A thread that came behind an async waiter of a semaphore is counted there.
    let own = tasks.iter().filter(|&&task| !objects.is(task, TASK_NODE));
    own.map(|&task| Lock::new(LockKind::Task, task)).collect()
}

/// The object that the SafeWaitHandle of a WaitHandle refers to, by a GC handle.
pub(super) fn waitable(objects: &Objects<'_, '_>, handle: Addr) -> Option<Addr> {
    let safe = objects.reference(handle, "_waitHandle")?;
    // A closed handle keeps its value, which may by now be that of another object.
    if objects.u32(safe, "_state")? & CLOSED != 0 {
        return None;
    }
    let value = objects.u64(safe, "handle").filter(|&v| v != 0 && v != u64::MAX)?;
    objects.types.memory.ptr(Addr::new(value)).ok().filter(|object| !object.is_null())
}

/// The mutex, event or semaphore that a waitable object is, with its owner. `handle`: its WaitHandle.
pub(super) fn handle_lock(
    objects: &Objects<'_, '_>,
    threads: &Threads<'_>,
    object: Addr,
    handle: Addr,
) -> Option<Lock> {
    let named = |thread: Option<Addr>| thread.and_then(|o| threads.of_object(o)).map(|i| threads.named(i));
    if objects.is(object, NAMED_MUTEX) {
        // Its waiters wait natively.
        let data = objects.reference(object, "_processDataHeader");
        let data = data.and_then(|header| objects.reference(header, "_processData"));
        let owner = named(data.and_then(|data| objects.reference(data, "_lockOwnerThread")));
        let times = data.and_then(|data| objects.u32(data, "_lockCount")).unwrap_or(0);
        return Some(Lock::new(LockKind::Mutex, handle).owned((owner, false), times));
    }
    let kind = match objects.u8(object, "_type")? {
        MUTEX => LockKind::Mutex,
        SEMAPHORE => LockKind::Semaphore,
        _ => LockKind::Event,
    };
    let info = objects.reference(object, "_ownershipInfo");
    let owner = named(info.and_then(|info| objects.reference(info, "_thread")));
    let times = info.and_then(|info| objects.u32(info, "_reacquireCount")).unwrap_or(0).saturating_add(1);
    Some(Lock::new(kind, handle).owned((owner, false), times))
}

//! The locks from .NET 11 on, where all that managed code waits for is an object.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::locks::Lock;
use crate::runtimes::coreclr::locks::objects::{LockClass, Objects};
use crate::runtimes::coreclr::locks::threads::Threads;
use crate::runtimes::coreclr::locks::waits::Waits;
use crate::runtimes::coreclr::sync_blocks::{LockThread, SyncBlock};
use crate::words::LockKind;

const CONDITION: &str = "System.Threading.Condition";
const NAMED_MUTEX: &str = "System.Threading.WaitSubsystem+NamedMutex";
const TASK_NODE: &str = "System.Threading.SemaphoreSlim+TaskNode";

/// Lock._state: it is held; number of waiters from bit 7 on.
const HELD: u32 = 1;

/// ReaderWriterLockSlim._owners: a writer holds it; number of readers, with the upgradeable one.
const WRITER_HELD: u32 = 1 << 31;

/// SafeHandle._state: its handle was given back.
const CLOSED: u32 = 1;

/// WaitableObject._type.
const SEMAPHORE: u8 = 2;
const MUTEX: u8 = 3;

/// Events in a ReaderWriterLockSlim on which threads wait.
const RW_EVENTS: [&str; 4] = ["_readEvent", "_writeEvent", "_upgradeEvent", "_waitUpgradeEvent"];

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
        self.waitable(handle).map_or_else(Vec::new, |object| self.waits.on(object).to_vec())
    }

    fn waitable(&self, handle: Addr) -> Option<Addr> {
        let safe = self.objects.reference(handle, "_waitHandle")?;
        // A closed handle keeps its value, which may by now be that of another object.
        if self.objects.u32(safe, "_state")? & CLOSED != 0 {
            return None;
        }
        let value = self.objects.u64(safe, "handle").filter(|&v| v != 0 && v != u64::MAX)?;
        self.objects.types.memory.ptr(Addr::new(value)).ok().filter(|object| !object.is_null())
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
        // A list that is damaged gives those before the damage.
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
            let task = objects.task_of(event);
            // A thread that came behind an async waiter of a semaphore is counted there.
            if task.is_some_and(|task| objects.is(task, TASK_NODE)) {
                continue;
            }
            let kind = if blocked { LockKind::Task } else { LockKind::EventSlim };
            let waiters = self.threads.all_named(&waiting);
            self.add(Lock { waiters, ..Lock::new(kind, task.unwrap_or(event)) });
        }
        for &lock in objects.of(LockClass::Lock).iter().filter(|lock| !taken.contains(lock)) {
            let (event, in_wait) = self.condition(lock);
            let held = objects.u32(lock, "_state").is_some_and(|state| state & HELD != 0);
            let owner = if held { objects.u32(lock, "_owningThreadId").unwrap_or(0) } else { 0 };
            let owner = self.threads.owner(owner);
            let times = objects.u32(lock, "_recursionCount").unwrap_or(0).saturating_add(1);
            let object = owned.get(&lock).copied();
            let kind = if object.is_some() { LockKind::Monitor } else { LockKind::Lock };
            let waiting = event.map_or_else(Vec::new, |event| self.on(event));
            let waiters = self.threads.all_named(&waiting);
            let object = object.unwrap_or(lock);
            self.add(Lock { waiters, ..Lock::new(kind, object).owned(owner, times) });
            if !in_wait.is_empty() {
                let waiters = self.threads.all_named(&in_wait);
                self.add(Lock { waiters, ..Lock::new(LockKind::MonitorWait, object).owned(owner, times) });
            }
        }
    }

    /// Number of async methods in the queue of a SemaphoreSlim. Adds the threads that wait in it with an event.
    fn async_waiters(&mut self, slim: Addr, waiting: &mut Vec<usize>) -> u64 {
        let objects = self.objects;
        let mut nodes = Vec::new();
        let first = objects.reference(slim, "m_asyncHead").unwrap_or(Addr::NULL);
        let end = self.walks.begin_own_set().follow(first, |node| {
            nodes.push(node);
            Ok::<_, std::convert::Infallible>(objects.reference(node, "Next").unwrap_or(Addr::NULL))
        });
        end.ok();
        let mut count = 0;
        for node in nodes {
            let event = objects.reference(node, "m_continuationObject");
            let lock = event.filter(|&e| objects.task_of(e) == Some(node)).and_then(|e| objects.reference(e, "m_lock"));
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
        let readers = self.readers();
        for &lock in objects.of(LockClass::ReaderWriterLockSlim) {
            let mut waiting = Vec::new();
            for event in RW_EVENTS.iter().filter_map(|field| objects.reference(lock, field)) {
                self.inner.insert(event);
                waiting.extend(self.on(event));
            }
            let state = objects.u32(lock, "_owners").unwrap_or(0);
            let id = |field| objects.u32(lock, field).filter(|&id| id as i32 > 0);
            let writer = id("_writeLockOwnerId").filter(|_| state & WRITER_HELD != 0);
            let upgrader = id("_upgradeLockOwnerId");
            let owner = self.threads.owner(writer.or(upgrader).unwrap_or(0));
            let id = objects.u64(lock, "_lockID").filter(|_| writer.is_none());
            let readers = id.and_then(|id| readers.get(&id)).map_or(&[][..], Vec::as_slice);
            // The upgradeable reader is the owner.
            let is_owner = |thread: &LockThread| upgrader.is_some() && thread.managed_id == upgrader;
            let readers = readers.iter().map(|&i| self.threads.named(i)).filter(|t| !is_owner(t)).collect();
            let waiters = self.threads.all_named(&waiting);
            self.add(Lock { waiters, readers, ..Lock::new(LockKind::ReaderWriter, lock).owned(owner, 1) });
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

    /// Indices of the threads that hold a ReaderWriterLockSlim for reading, by the lock's id. Each thread has a list of
    /// the locks that it reads.
    fn readers(&self) -> HashMap<u64, Vec<usize>> {
        let objects = self.objects;
        let types = objects.types;
        let mut out: HashMap<u64, Vec<usize>> = HashMap::new();
        let method_table = objects.of(LockClass::ReaderWriterLockSlim).first().and_then(|&lock| types.type_of(lock));
        let bases = method_table.map_or_else(Vec::new, |at| types.bases(at));
        let mut fields = bases.into_iter().flat_map(|at| types.own_fields(at).unwrap_or_default());
        let Some(field) = fields.find(|f| types.field_name(f) == "t_rwc") else { return out };
        for (i, thread) in self.threads.list.iter().enumerate() {
            let first = types.thread_static_address(&field, thread.address).and_then(|at| types.memory.ptr(at).ok());
            let end = self.walks.begin_own_set().follow(first.unwrap_or(Addr::NULL), |count| {
                if objects.u32(count, "readercount").is_some_and(|n| n != 0)
                    && let Some(id) = objects.u64(count, "lockID")
                {
                    let threads = out.entry(id).or_default();
                    if threads.last() != Some(&i) {
                        threads.push(i);
                    }
                }
                Ok::<_, std::convert::Infallible>(objects.reference(count, "next").unwrap_or(Addr::NULL))
            });
            // A list that is damaged gives those before the damage.
            end.ok();
        }
        out
    }

    /// Mutexes, events and semaphores that the program made.
    fn handles(&mut self) {
        let objects = self.objects;
        for &handle in objects.of(LockClass::Handle).iter().filter(|at| !self.inner.contains(at)).collect::<Vec<_>>() {
            let Some(object) = self.waitable(handle) else { continue };
            if objects.is(object, NAMED_MUTEX) {
                // Its waiters wait natively.
                let data = objects.reference(object, "_processDataHeader");
                let data = data.and_then(|header| objects.reference(header, "_processData"));
                let owner = data.and_then(|data| objects.reference(data, "_lockOwnerThread"));
                let owner = owner.and_then(|o| self.threads.of_object(o)).map(|i| self.threads.named(i));
                let times = data.and_then(|data| objects.u32(data, "_lockCount")).unwrap_or(0);
                self.add(Lock::new(LockKind::Mutex, handle).owned((owner, false), times));
                continue;
            }
            let kind = match objects.u8(object, "_type") {
                Some(MUTEX) => LockKind::Mutex,
                Some(SEMAPHORE) => LockKind::Semaphore,
                Some(_) => LockKind::Event,
                None => continue,
            };
            let info = objects.reference(object, "_ownershipInfo");
            let owner = info.and_then(|info| objects.reference(info, "_thread"));
            let owner = owner.and_then(|o| self.threads.of_object(o)).map(|i| self.threads.named(i));
            let times = info.and_then(|info| objects.u32(info, "_reacquireCount")).unwrap_or(0).saturating_add(1);
            let waiters = self.threads.all_named(self.waits.on(object));
            self.add(Lock { waiters, ..Lock::new(kind, handle).owned((owner, false), times) });
        }
    }
}

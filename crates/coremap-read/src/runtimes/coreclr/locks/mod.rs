//! Locks that are held or waited for, with owners and exact waiters, from the heap and the runtime's structures alone.
//!
//! From .NET 11 on all waits of managed code are in System.Private.CoreLib: a thread's record has the objects that it
//! waits for, and each object has a list of its waiters. Before that the native runtime waits, and a thread's
//! ThreadBlockingInfo (.NET 9 and 10) names the monitor or Lock. Sources: System.Private.CoreLib:
//! Threading/WaitSubsystem, Lock.cs, Condition.cs, SemaphoreSlim.cs, ManualResetEventSlim.cs, ReaderWriterLockSlim.cs,
//! ThreadBlockingInfo.cs; src/coreclr/vm/syncblk.h.

mod blocking;
mod native;
mod objects;
mod reader_writer;
mod rows;
mod structures;
mod thread_waits;
mod threads;
mod waits;

pub(super) use objects::{LockCollector, LockObjects, Objects};
pub(super) use thread_waits::{Answer, ThreadWait, ThreadWaits};

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::map::Confidence;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{Heap as _, PendingSemaphore};
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::locks::threads::{ThreadIndex, Threads};
use crate::runtimes::coreclr::sync_blocks::{self, LockThread, SyncBlock};
use crate::words::{LockKind, WaitKind};

/// A lock that is held or waited for.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Kind of lock.
    pub kind: LockKind,
    /// The object.
    pub object: Addr,
    /// Thread that holds it, or that is joined.
    pub owner: Option<LockThread>,
    /// Whether the owner's thread has certainly ended.
    pub owner_ended: bool,
    /// How often the owner entered it.
    pub times: u32,
    /// Threads that wait for it, in the order of the queue.
    pub waiters: Vec<LockThread>,
    /// Number of waiting threads of which nothing else is known.
    pub unknown_waiters: u32,
    /// Threads that hold it for reading.
    pub readers: Vec<LockThread>,
    /// Number of async methods that wait for it.
    pub async_waiters: u64,
    /// Confidence.
    pub confidence: Confidence,
}

impl Lock {
    fn new(kind: LockKind, object: Addr) -> Lock {
        Lock {
            kind,
            object,
            owner: None,
            owner_ended: false,
            times: 0,
            waiters: Vec::new(),
            unknown_waiters: 0,
            readers: Vec::new(),
            async_waiters: 0,
            confidence: Confidence::Exact,
        }
    }

    fn owned(self, (owner, owner_ended): (Option<LockThread>, bool), times: u32) -> Lock {
        let times = if owner.is_some() { times } else { 0 };
        Lock { owner, owner_ended, times, ..self }
    }

    fn is_used(&self) -> bool {
        self.owner.is_some()
            || self.unknown_waiters > 0
            || !self.waiters.is_empty()
            || !self.readers.is_empty()
            || self.async_waiters > 0
    }
}

/// Lock._state: it is held.
const HELD: u32 = 1;

/// A System.Threading.Lock with its owner. `monitor`: the object whose monitor it is (.NET 11 on).
fn lock_object(objects: &Objects<'_, '_>, threads: &Threads<'_>, lock: Addr, monitor: Option<Addr>) -> Lock {
    let held = objects.u32(lock, "_state").is_some_and(|state| state & HELD != 0);
    let id = if held { objects.u32(lock, "_owningThreadId").unwrap_or(0) } else { 0 };
    // The managed id from .NET 11 on, before that the system's.
    let managed = objects.types.runtime.has_managed_locks();
    let owner = if managed { threads.owner(id) } else { threads.owner_by_tid(id) };
    let times = objects.u32(lock, "_recursionCount").unwrap_or(0).saturating_add(1);
    let kind = if monitor.is_some() { LockKind::Monitor } else { LockKind::Lock };
    Lock::new(kind, monitor.unwrap_or(lock)).owned(owner, times)
}

/// The SemaphoreSlims among `locks`, with their places and queues.
fn semaphores(objects: &Objects<'_, '_>, locks: &[Lock]) -> Vec<PendingSemaphore> {
    let walks = Walks::new(Phase::Locks, limits::MAX_LOCK_OBJECTS);
    let used = locks.iter().filter(|lock| lock.kind == LockKind::SemaphoreSlim);
    let mut out: Vec<PendingSemaphore> = used
        .map(|lock| PendingSemaphore {
            address: lock.object,
            free: objects.u32(lock.object, "m_currentCount").unwrap_or(0),
            // int.MaxValue if the program gave none.
            limit: objects.u32(lock.object, "m_maxCount").filter(|&max| max != i32::MAX as u32),
            threads: lock.waiters.iter().filter_map(|waiter| waiter.os_id).collect(),
            queue: rows::semaphore_nodes(objects, &walks, lock.object),
        })
        .collect();
    out.sort_by_key(|slim| slim.address);
    out
}

/// All locks of one runtime that are held or waited for.
#[derive(Debug, Default)]
pub struct LockTable {
    /// The locks, those with most waiters first.
    pub locks: Vec<Lock>,
    /// Messages about what could not be read.
    pub notes: Vec<String>,
    /// All sync blocks in use.
    pub blocks: Vec<SyncBlock>,
    /// Messages about sync blocks that could not be read. They are also in `notes`.
    pub block_notes: Vec<String>,
    /// Index of the lock that a thread waits for, by the address of its Thread. Without threads that wait for any of
    /// several.
    by_waiter: HashMap<Addr, usize>,
    /// SemaphoreSlims that threads or tasks wait for, by address.
    pub(in crate::runtimes::coreclr) semaphores: Vec<PendingSemaphore>,
    /// Structures built on a SemaphoreSlim or an event, by its address: the kind of wait, and the structure that a
    /// thread waits for.
    built: HashMap<Addr, (WaitKind, Addr)>,
}

impl LockTable {
    /// The lock that a thread waits for. `None` if it waits for none, or for any of several.
    pub fn of_waiter(&self, thread: Addr) -> Option<&Lock> {
        self.locks.get(*self.by_waiter.get(&thread)?)
    }

    /// What a thread waits for, from the heap.
    pub(in crate::runtimes::coreclr) fn wait(&self, thread: Addr) -> Option<ThreadWait> {
        let lock = self.of_waiter(thread)?;
        let how = "owners and wait lists in the heap";
        if let Some(&(kind, object)) = self.built.get(&lock.object) {
            return Some(ThreadWait { kind, lock: Lock { object, waiters: Vec::new(), ..lock.clone() }, how });
        }
        Some(ThreadWait { kind: lock.kind.wait(), lock: Lock { waiters: Vec::new(), ..lock.clone() }, how })
    }

    /// Reads the locks of the runtime whose objects are in `heap`. `found`: those that a walk over it found.
    pub(in crate::runtimes::coreclr) fn read(process: &Process, heap: &Heap<'_>, found: &LockObjects) -> LockTable {
        let types = heap.type_system();
        let _phase = process.enter(Phase::Locks);
        let (blocks, block_notes) = sync_blocks::read(process, &types.runtime);
        let mut notes = block_notes.clone();
        let index = ThreadIndex::read(process, &types.runtime);
        let threads = index.of(process, &types.runtime);
        let objects = Objects::new(types, Some(found));
        notes.extend(objects.notes());
        let managed = types.runtime.has_managed_locks();
        // Up to .NET 10 the sync blocks have the contended locks, without the heap.
        if managed && heap.ranges().is_empty() {
            notes.push("no GC segment is known, so locks are missing".to_owned());
        }
        let (mut locks, choices) = if managed {
            rows::read(&objects, &threads, &blocks, &mut notes)
        } else {
            (native::read(&objects, &threads, &blocks), Vec::new())
        };
        if !types.runtime.proven {
            locks.iter_mut().for_each(|lock| lock.confidence = Confidence::Derived);
        }
        locks.sort_by_key(|lock| (std::cmp::Reverse(lock.waiters.len()), lock.object));
        let mut by_waiter: HashMap<Addr, usize> = HashMap::new();
        for (i, lock) in locks.iter().enumerate() {
            for at in lock.waiters.iter().filter_map(|w| w.address) {
                // Of several objects that must all be signalled, one that is owned decides.
                let known = by_waiter.entry(at).or_insert(i);
                if locks.get(*known).is_some_and(|before| before.owner.is_none()) && lock.owner.is_some() {
                    *known = i;
                }
            }
        }
        // Any of several objects may end the wait.
        by_waiter.retain(|at, _| !choices.contains(at));
        let built = structures::built(&objects);
        let semaphores = semaphores(&objects, &locks);
        LockTable { locks, notes, blocks, block_notes, by_waiter, built, semaphores }
    }
}

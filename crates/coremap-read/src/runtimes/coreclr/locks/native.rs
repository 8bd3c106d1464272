//! The locks up to .NET 10, where the native runtime waits: monitors and what the library builds on them, thin locks,
//! System.Threading.Lock and ReaderWriterLockSlim.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::locks::blocking::{self, Blocking};
use crate::runtimes::coreclr::locks::objects::{LockClass, Objects};
use crate::runtimes::coreclr::locks::reader_writer::{self, Readers};
use crate::runtimes::coreclr::locks::rows::{event_locks, semaphore_nodes};
use crate::runtimes::coreclr::locks::threads::Threads;
use crate::runtimes::coreclr::locks::{Lock, lock_object};
use crate::runtimes::coreclr::sync_blocks::{LockThread, SyncBlock};
use crate::words::LockKind;

/// Threads that wait, by what they wait for.
#[derive(Default)]
struct Blocked {
    monitors: HashMap<Addr, Vec<usize>>,
    locks: HashMap<Addr, Vec<usize>>,
}

/// Fields of the library's structures with the object that they lock.
const LOCKED: [(LockClass, &[&str]); 3] = [
    (LockClass::SemaphoreSlim, &["m_lockObjAndDisposed", "m_lockObj"]),
    (LockClass::ManualResetEventSlim, &["m_lock"]),
    (LockClass::Blocked, &["m_lock"]),
];

pub(super) fn read(objects: &Objects<'_, '_>, threads: &Threads<'_>, blocks: &[SyncBlock]) -> Vec<Lock> {
    let blocked = blocked(objects, threads);
    let structures = structures(objects);
    let mut out = Vec::new();
    let mut add = |lock: Lock| {
        if lock.is_used() {
            out.push(lock);
        }
    };
    for &(object, thin) in objects.thin() {
        add(Lock::new(LockKind::Monitor, object).owned(threads.owner(thin.owner), thin.times));
    }
    let mut in_semaphore: HashMap<Addr, Vec<LockThread>> = HashMap::new();
    for block in blocks {
        let waiting = block.address.and_then(|at| blocked.monitors.get(&at));
        let waiters = waiting.map_or_else(Vec::new, |all| threads.all_named(all));
        let owner = block.owner.filter(|_| block.held);
        // The runtime writes the owner before it counts.
        let times = block.recursion.max(1);
        // The sync block counts all waiters. Threads name their monitor only from .NET 9 on.
        let unknown_waiters = block.waiting.saturating_sub(u32::try_from(waiters.len()).unwrap_or(u32::MAX));
        let row = Lock::new(LockKind::Monitor, block.object).owned((owner, false), times);
        add(Lock { waiters, unknown_waiters, ..row });
        if block.pulse.is_empty() {
            continue;
        }
        let waiters = block.pulse.clone();
        match structures.get(&block.object) {
            None => {
                let row = Lock::new(LockKind::MonitorWait, block.object).owned((owner, false), times);
                add(Lock { waiters, ..row });
            }
            Some(&(LockClass::SemaphoreSlim, slim)) => in_semaphore.entry(slim).or_default().extend(waiters),
            Some(&(class, event)) => {
                for lock in event_locks(objects, event, class == LockClass::Blocked) {
                    add(Lock { waiters: waiters.clone(), ..lock });
                }
            }
        }
    }
    for &lock in objects.of(LockClass::Lock) {
        let waiters = blocked.locks.get(&lock).map_or_else(Vec::new, |all| threads.all_named(all));
        add(Lock { waiters, ..lock_object(objects, threads, lock, None) });
    }
    let walks = Walks::new(Phase::Locks, limits::MAX_LOCK_OBJECTS);
    for &slim in objects.of(LockClass::SemaphoreSlim) {
        let async_waiters = semaphore_nodes(objects, &walks, slim).len() as u64;
        let waiters = in_semaphore.remove(&slim).unwrap_or_default();
        add(Lock { waiters, async_waiters, ..Lock::new(LockKind::SemaphoreSlim, slim) });
    }
    let readers = Readers::default();
    for &lock in objects.of(LockClass::ReaderWriterLockSlim) {
        let unknown_waiters = reader_writer::waiters(objects, lock);
        add(Lock { unknown_waiters, ..readers.lock(objects, threads, lock) });
    }
    out
}

/// The library's structures, by the object that they lock.
fn structures(objects: &Objects<'_, '_>) -> HashMap<Addr, (LockClass, Addr)> {
    let mut out = HashMap::new();
    for (class, fields) in LOCKED {
        for &object in objects.of(class) {
            let locked = fields.iter().find_map(|field| objects.reference(object, field));
            out.extend(locked.map(|locked| (locked, (class, object))));
        }
    }
    out
}

/// Threads that wait for a monitor or a Lock.
fn blocked(objects: &Objects<'_, '_>, threads: &Threads<'_>) -> Blocked {
    let mut out = Blocked::default();
    for (i, blocking) in blocking::read(objects.types, threads.list).into_iter().enumerate() {
        match blocking {
            Some(Blocking::Monitor(block)) => out.monitors.entry(block).or_default().push(i),
            Some(Blocking::Lock(lock)) => out.locks.entry(lock).or_default().push(i),
            // The list of the sync block contains the threads in Monitor.Wait.
            Some(Blocking::MonitorWait(_) | Blocking::Condition(_)) | None => {}
        }
    }
    out
}

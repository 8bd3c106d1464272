//! The locks up to .NET 10, where the native runtime waits: monitors, thin locks and System.Threading.Lock.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::coreclr::locks::Lock;
use crate::runtimes::coreclr::locks::objects::{LockClass, Objects};
use crate::runtimes::coreclr::locks::threads::Threads;
use crate::runtimes::coreclr::sync_blocks::SyncBlock;
use crate::words::LockKind;

/// The class whose thread static names what a thread waits for (.NET 9 on).
const BLOCKING: &str = "System.Threading.ThreadBlockingInfo";
const FIRST: &str = "t_first";

/// ThreadBlockingInfo.ObjectKind: a monitor, by the address of its SyncBlock; a Lock, by the address of a reference to
/// it. 1 is Monitor.Wait, and the list of the sync block has those.
const MONITOR: u32 = 0;
const LOCK: u32 = 2;

/// Lock._state: it is held.
const HELD: u32 = 1;

/// Threads that wait, by what they wait for.
#[derive(Default)]
struct Blocked {
    monitors: HashMap<Addr, Vec<usize>>,
    locks: HashMap<Addr, Vec<usize>>,
}

pub(super) fn read(objects: &Objects<'_, '_>, threads: &Threads<'_>, blocks: &[SyncBlock]) -> Vec<Lock> {
    let blocked = blocked(objects, threads);
    let mut out = Vec::new();
    let mut add = |lock: Lock| {
        if lock.is_used() {
            out.push(lock);
        }
    };
    for &(object, thin) in objects.thin() {
        add(Lock::new(LockKind::Monitor, object).owned(threads.owner(thin.owner), thin.times));
    }
    for block in blocks {
        let waiting = block.address.and_then(|at| blocked.monitors.get(&at));
        let waiters = waiting.map_or_else(Vec::new, |all| threads.all_named(all));
        let owner = block.owner.filter(|_| block.held);
        // The runtime writes the owner before it counts.
        let times = block.recursion.max(1);
        // The sync block counts all, and threads name their monitor from .NET 9 on only.
        let unknown_waiters = block.waiting.saturating_sub(u32::try_from(waiters.len()).unwrap_or(u32::MAX));
        let row = Lock::new(LockKind::Monitor, block.object).owned((owner, false), times);
        add(Lock { waiters, unknown_waiters, ..row });
        if !block.pulse.is_empty() {
            let row = Lock::new(LockKind::MonitorWait, block.object).owned((owner, false), times);
            add(Lock { waiters: block.pulse.clone(), ..row });
        }
    }
    for &lock in objects.of(LockClass::Lock) {
        let held = objects.u32(lock, "_state").is_some_and(|state| state & HELD != 0);
        let owner = if held { objects.u32(lock, "_owningThreadId").unwrap_or(0) } else { 0 };
        let times = objects.u32(lock, "_recursionCount").unwrap_or(0).saturating_add(1);
        let waiters = blocked.locks.get(&lock).map_or_else(Vec::new, |all| threads.all_named(all));
        add(Lock { waiters, ..Lock::new(LockKind::Lock, lock).owned(threads.owner_by_tid(owner), times) });
    }
    out
}

/// What each thread waits for, by its first ThreadBlockingInfo. A pulsed thread that wants its lock again has one for
/// that before the one for Monitor.Wait.
fn blocked(objects: &Objects<'_, '_>, threads: &Threads<'_>) -> Blocked {
    let mut out = Blocked::default();
    let types = objects.types;
    let memory: &dyn Memory = types.memory;
    let Some(method_table) = types.core_class(BLOCKING) else { return out };
    let own = types.own_fields(method_table).unwrap_or_default();
    let named = |name: &str| own.iter().find(|f| types.field_name(f) == name);
    let Some(first) = named(FIRST) else { return out };
    let (Some(pointer), Some(kind)) = (named("_objectPtr"), named("_objectKind")) else { return out };
    for (i, thread) in threads.list.iter().enumerate().filter(|(_, t)| t.os_id.is_some_and(|id| id != 0)) {
        let info = types.thread_static_address(first, thread.address).and_then(|at| memory.ptr(at).ok());
        let Some(info) = info.filter(|at| !at.is_null()) else { continue };
        let object = memory.ptr(info.saturating_add(pointer.offset)).ok().filter(|at| !at.is_null());
        let (Some(object), Ok(kind)) = (object, memory.u32(info.saturating_add(kind.offset))) else { continue };
        match kind {
            MONITOR => out.monitors.entry(object).or_default().push(i),
            LOCK => {
                if let Ok(lock) = memory.ptr(object) {
                    out.locks.entry(lock).or_default().push(i);
                }
            }
            _ => {}
        }
    }
    out
}

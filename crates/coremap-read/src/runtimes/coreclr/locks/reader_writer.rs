//! ReaderWriterLockSlim: who holds it. Sources: System.Private.CoreLib: ReaderWriterLockSlim.cs.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::locks::Lock;
use crate::runtimes::coreclr::locks::objects::Objects;
use crate::runtimes::coreclr::locks::threads::Threads;
use crate::runtimes::coreclr::sync_blocks::LockThread;
use crate::words::LockKind;

/// ReaderWriterLockSlim._owners: a writer holds it.
const WRITER_HELD: u32 = 1 << 31;

/// Events in a ReaderWriterLockSlim on which threads wait.
pub(super) const EVENTS: [&str; 4] = ["_readEvent", "_writeEvent", "_upgradeEvent", "_waitUpgradeEvent"];

/// Numbers of threads that wait on these events.
const WAITERS: [&str; 4] = ["_numReadWaiters", "_numWriteWaiters", "_numUpgradeWaiters", "_numWriteUpgradeWaiters"];

/// Readers of each ReaderWriterLockSlim, read on first use.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// Indices of threads by the lock's id.
    by_id: OnceLock<HashMap<u64, Vec<usize>>>,
}

impl Readers {
    /// A lock with its writer or upgradeable reader as the owner, and its readers. Its waiters are not read.
    pub(super) fn lock(&self, objects: &Objects<'_, '_>, threads: &Threads<'_>, lock: Addr) -> Lock {
        let state = objects.u32(lock, "_owners").unwrap_or(0);
        let id = |field| objects.u32(lock, field).filter(|&id| id as i32 > 0);
        let writer = id("_writeLockOwnerId").filter(|_| state & WRITER_HELD != 0);
        let upgrader = id("_upgradeLockOwnerId");
        let owner = threads.owner(writer.or(upgrader).unwrap_or(0));
        let by_id = self.by_id.get_or_init(|| readers(objects, threads, lock));
        let id = objects.u64(lock, "_lockID").filter(|_| writer.is_none());
        let readers = id.and_then(|id| by_id.get(&id)).map_or(&[][..], Vec::as_slice);
        // The upgradeable reader is the owner.
        let is_owner = |thread: &LockThread| upgrader.is_some() && thread.managed_id == upgrader;
        let readers = readers.iter().map(|&i| threads.named(i)).filter(|t| !is_owner(t)).collect();
        Lock { readers, ..Lock::new(LockKind::ReaderWriter, lock).owned(owner, 1) }
    }
}

/// Number of threads that wait for a lock, as it counts them.
pub(super) fn waiters(objects: &Objects<'_, '_>, lock: Addr) -> u32 {
    WAITERS.iter().filter_map(|field| objects.u32(lock, field)).fold(0, u32::saturating_add)
}

/// Indices of the threads that hold a lock for reading, by the lock's id. Each thread has a list of the locks that it
/// reads. `any`: a lock, whose class has the thread static.
fn readers(objects: &Objects<'_, '_>, threads: &Threads<'_>, any: Addr) -> HashMap<u64, Vec<usize>> {
    let types = objects.types;
    let walks = Walks::new(Phase::Locks, limits::MAX_LOCK_OBJECTS);
    let mut out: HashMap<u64, Vec<usize>> = HashMap::new();
    let bases = types.type_of(any).map_or_else(Vec::new, |at| types.bases(at));
    let mut fields = bases.into_iter().flat_map(|at| types.own_fields(at).unwrap_or_default());
    let Some(field) = fields.find(|f| types.field_name(f) == "t_rwc") else { return out };
    for (i, thread) in threads.list.iter().enumerate() {
        let first = types.thread_static_address(&field, thread.address).and_then(|at| types.memory.ptr(at).ok());
        let end = walks.begin_own_set().follow(first.unwrap_or(Addr::NULL), |count| {
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
        // If the list is damaged, use the elements before the damage.
        end.ok();
    }
    out
}

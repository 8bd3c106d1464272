//! Who waits for what, from .NET 11 on: the record of each thread, and the list of each waitable object.

use std::collections::{BTreeMap, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::locks::objects::Objects;
use crate::runtimes::coreclr::locks::threads::Threads;

/// ThreadWaitInfo.WaitSignalState: the thread waits in this state and in those before it.
const WAITING: u8 = 1;

/// Maximum number of objects in one wait (WaitHandle.MaxWaitHandles).
const MAX_OBJECTS: u32 = 64;

/// Offset of an array's first reference.
const ELEMENTS: u64 = 16;

/// Threads that wait, by the object that they wait for.
pub(super) struct Waits {
    /// Indices of threads, in the order of each object's queue. By address, so that damaged lists that share nodes
    /// always give the same answer.
    on: BTreeMap<Addr, Vec<usize>>,
    /// Threads that wait for any of several objects.
    pub(super) choices: Vec<usize>,
    /// Number of objects whose list and whose threads' records disagree, as while a thread is woken.
    pub(super) disagree: u64,
}

impl Waits {
    pub(super) fn read(objects: &Objects<'_, '_>, threads: &Threads<'_>) -> Waits {
        let memory: &dyn Memory = objects.types.memory;
        let mut waits = Waits { on: BTreeMap::new(), choices: Vec::new(), disagree: 0 };
        for i in 0..threads.list.len() {
            let Some(info) = threads.object(i).and_then(|o| objects.reference(o, "_waitInfo")) else { continue };
            if objects.u8(info, "_waitSignalState").is_none_or(|state| state > WAITING) {
                continue;
            }
            let count = objects.u32(info, "_waitedCount").unwrap_or(0).min(MAX_OBJECTS);
            let Some(array) = objects.reference(info, "_waitedObjects") else { continue };
            for k in 0..u64::from(count) {
                let object = memory.ptr(array.saturating_add(ELEMENTS + 8 * k));
                if let Some(object) = object.ok().filter(|o| !o.is_null()) {
                    waits.on.entry(object).or_default().push(i);
                }
            }
            if count > 1 && objects.u8(info, "_isWaitForAll") == Some(0) {
                waits.choices.push(i);
            }
        }
        // Both must agree: a thread that is being woken may still be in one of them.
        let walks = Walks::new(Phase::Locks, limits::MAX_WAITERS);
        for (&object, by_record) in &mut waits.on {
            let recorded: HashSet<usize> = by_record.iter().copied().collect();
            let mut in_list = Vec::new();
            let first = objects.reference(object, "_waitersHead").unwrap_or(Addr::NULL);
            let end = walks.begin().follow(first, |node| {
                let thread = objects.reference(node, "_waitInfo").and_then(|info| objects.reference(info, "_thread"));
                in_list.extend(thread.and_then(|object| threads.of_object(object)));
                Ok::<_, std::convert::Infallible>(objects.reference(node, "_next").unwrap_or(Addr::NULL))
            });
            let listed = in_list.len();
            let mut seen = HashSet::new();
            in_list.retain(|i| recorded.contains(i) && seen.insert(*i));
            if end.is_err() || listed != in_list.len() || in_list.len() != recorded.len() {
                waits.disagree += 1;
            }
            *by_record = in_list;
        }
        waits
    }

    /// Threads that wait for a waitable object.
    pub(super) fn on(&self, object: Addr) -> &[usize] {
        self.on.get(&object).map_or(&[], Vec::as_slice)
    }
}

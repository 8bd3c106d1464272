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

/// What a thread's ThreadWaitInfo has.
pub(super) struct Record {
    /// The objects that it waits for. None in Thread.Sleep.
    pub(super) waited: Vec<Addr>,
    /// Whether it waits for all of them.
    pub(super) all: bool,
}

/// Reads the record of a System.Threading.Thread. `None` if it does not wait.
pub(super) fn record(objects: &Objects<'_, '_>, thread: Addr) -> Option<Record> {
    let memory: &dyn Memory = objects.types.memory;
    let info = objects.reference(thread, "_waitInfo")?;
    if objects.u8(info, "_waitSignalState")? > WAITING {
        return None;
    }
    let count = objects.u32(info, "_waitedCount")?.min(MAX_OBJECTS);
    let mut waited = Vec::new();
    if count > 0 {
        let array = objects.reference(info, "_waitedObjects")?;
        for k in 0..u64::from(count) {
            let object = memory.ptr(array.saturating_add(ELEMENTS + 8 * k));
            waited.push(object.ok().filter(|o| !o.is_null())?);
        }
    }
    Some(Record { waited, all: objects.u8(info, "_isWaitForAll") != Some(0) })
}

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
        let mut waits = Waits { on: BTreeMap::new(), choices: Vec::new(), disagree: 0 };
        for i in 0..threads.list.len() {
            let Some(Record { waited, all }) = threads.object(i).and_then(|o| record(objects, o)) else { continue };
            if waited.len() > 1 && !all {
                waits.choices.push(i);
            }
            for object in waited {
                waits.on.entry(object).or_default().push(i);
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

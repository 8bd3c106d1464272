//! Threads by their ids and objects.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::process::Process;
use crate::runtimes::coreclr::sync_blocks::LockThread;
use crate::runtimes::coreclr::{ManagedThread, Runtime, threads};

/// The runtime's threads.
pub(super) struct Threads<'r> {
    pub(super) list: &'r [ManagedThread],
    index: &'r ThreadIndex,
}

/// Indices into the runtime's list of threads.
#[derive(Debug, Default)]
pub(super) struct ThreadIndex {
    /// Whether the list could be read to its end.
    complete: bool,
    /// Index of a running thread by its managed id. If two have the same, the first is used.
    by_id: HashMap<u32, usize>,
    /// Index by the address of the System.Threading.Thread.
    by_object: HashMap<Addr, usize>,
    /// Index of a running thread by the system's id.
    by_tid: HashMap<u32, usize>,
    /// The System.Threading.Thread of each.
    objects: Vec<Option<Addr>>,
}

impl ThreadIndex {
    pub(super) fn read(process: &Process, runtime: &Runtime) -> ThreadIndex {
        let (list, broken) = threads(process, runtime).unwrap_or((&[], Some("")));
        let memory: &dyn crate::memory::Memory = &process.memory;
        let object = |t: &ManagedThread| memory.ptr(t.exposed_object?).ok().filter(|o| !o.is_null());
        let objects: Vec<Option<Addr>> = list.iter().map(object).collect();
        let (mut by_id, mut by_tid) = (HashMap::new(), HashMap::new());
        for (i, thread) in list.iter().enumerate() {
            // A thread without a system id has ended, or was not started.
            let Some(tid) = thread.os_id.filter(|&id| id != 0) else { continue };
            by_tid.entry(tid).or_insert(i);
            if let Some(id) = thread.managed_id {
                by_id.entry(id).or_insert(i);
            }
        }
        let by_object = objects.iter().enumerate().filter_map(|(i, o)| Some(((*o)?, i))).collect();
        ThreadIndex { complete: broken.is_none(), by_id, by_object, by_tid, objects }
    }

    pub(super) fn of<'r>(&'r self, process: &Process, runtime: &'r Runtime) -> Threads<'r> {
        let (list, _) = threads(process, runtime).unwrap_or_default();
        Threads { list, index: self }
    }
}

impl Threads<'_> {
    pub(super) fn named(&self, index: usize) -> LockThread {
        let thread = self.list.get(index);
        LockThread {
            address: thread.map(|t| t.address),
            os_id: thread.and_then(|t| t.os_id).filter(|&id| id != 0),
            managed_id: thread.and_then(|t| t.managed_id),
        }
    }

    pub(super) fn all_named(&self, indices: &[usize]) -> Vec<LockThread> {
        indices.iter().map(|&i| self.named(i)).collect()
    }

    /// The System.Threading.Thread of a thread.
    pub(super) fn object(&self, index: usize) -> Option<Addr> {
        self.index.objects.get(index).copied().flatten()
    }

    /// Index of the thread that an object is the System.Threading.Thread of.
    pub(super) fn of_object(&self, object: Addr) -> Option<usize> {
        self.index.by_object.get(&object).copied()
    }

    /// The owner with a managed id, and whether its thread has certainly ended. Id 0 is none.
    pub(super) fn owner(&self, id: u32) -> (Option<LockThread>, bool) {
        match (id, self.index.by_id.get(&id)) {
            (0, _) => (None, false),
            (_, Some(&i)) => (Some(self.named(i)), false),
            (_, None) => (Some(LockThread { managed_id: Some(id), ..LockThread::default() }), self.index.complete),
        }
    }

    /// The owner with a system id, and whether its thread has certainly ended.
    pub(super) fn owner_by_tid(&self, tid: u32) -> (Option<LockThread>, bool) {
        match (tid, self.index.by_tid.get(&tid)) {
            (0, _) => (None, false),
            (_, Some(&i)) => (Some(self.named(i)), false),
            (_, None) => (Some(LockThread { os_id: Some(tid), ..LockThread::default() }), self.index.complete),
        }
    }
}

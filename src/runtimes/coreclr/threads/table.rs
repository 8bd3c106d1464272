//! The runtime's threads with their explicit Frames.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{self, ManagedThreads, ProtectedRef};
use crate::runtimes::coreclr::Runtime;
use crate::runtimes::coreclr::threads::{FrameClasses, ManagedThread, threads};

/// A thread of the runtime's list.
#[derive(Clone, Debug)]
pub(crate) struct ThreadEntry {
    /// Fields of the Thread.
    pub thread: ManagedThread,
    /// References in lists of the runtime's own code.
    pub protected: Vec<ProtectedRef>,
    /// Whether it runs finalizers.
    pub finalizer: bool,
}

/// All threads of the runtime.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct ThreadTable {
    /// Threads in the form that all runtimes share.
    pub(in crate::runtimes::coreclr) threads: ManagedThreads,
    /// Threads by the address of their Thread.
    pub(in crate::runtimes::coreclr) by_address: HashMap<Addr, ThreadEntry>,
}

impl ThreadTable {
    pub(in crate::runtimes::coreclr) fn read(process: &Process, runtime: &Runtime) -> ThreadTable {
        let _phase = process.enter(Phase::ManagedThreads);
        let mut out = ThreadTable::default();
        let (list, broken) = match threads(process, runtime) {
            Ok(found) => found,
            Err(e) => {
                out.threads.notes.push((WarningCode::Dotnet, format!("{}: threads: {e}", runtime.name())));
                return out;
            }
        };
        if let Some(broken) = broken {
            out.threads.notes.push((WarningCode::Dotnet, format!("{}: {broken}", runtime.name())));
        }
        let finalizer = runtime.globals.pointer(&process.memory, &runtime.layout, "FinalizerThread").ok();
        let classes = FrameClasses::new(&process.memory, runtime);
        for thread in list.iter().cloned() {
            let Some(tid) = thread.os_id.filter(|&id| id != 0) else { continue };
            let (marks, broken) = thread.frame.map(|first| classes.list(first, thread.stack)).unwrap_or_default();
            out.note(tid, broken);
            let (protected, broken) = classes.protected(&thread);
            out.note(tid, broken);
            let (address, id) = (thread.address, thread.managed_id);
            out.threads.by_tid.entry(tid).or_default().push(api::ManagedThread { address, id, marks });
            let finalizer = finalizer == Some(address);
            out.by_address.insert(address, ThreadEntry { thread, protected, finalizer });
        }
        out
    }

    fn note(&mut self, tid: u32, broken: Option<String>) {
        let note = broken.map(|broken| (WarningCode::Frames, format!("thread {tid}: {broken}")));
        self.threads.notes.extend(note);
    }
}

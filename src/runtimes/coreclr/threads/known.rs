//! The runtime's threads, with the explicit Frames on their stacks.

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
pub(crate) struct KnownThread {
    /// What the runtime knows of it.
    pub thread: ManagedThread,
    /// References that the runtime's own code keeps in lists.
    pub protected: Vec<ProtectedRef>,
    /// Whether it is the one that runs finalizers.
    pub finalizer: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct Known {
    /// As all runtimes tell of theirs.
    pub(in crate::runtimes::coreclr) threads: ManagedThreads,
    /// By their Thread.
    pub(in crate::runtimes::coreclr) by_address: HashMap<Addr, KnownThread>,
}

impl Known {
    /// Read them.
    pub(in crate::runtimes::coreclr) fn read(process: &Process, runtime: &Runtime) -> Known {
        let _phase = process.enter(Phase::ManagedThreads);
        let mut out = Known::default();
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
        let finalizer = runtime.roots.pointer(&process.memory, &runtime.layout, "FinalizerThread").ok();
        let classes = FrameClasses::new(&process.memory, runtime);
        for thread in list.iter().cloned() {
            let Some(tid) = thread.os_id.filter(|&id| id != 0) else { continue };
            let (marks, broken) = thread.frame.map(|first| classes.list(first)).unwrap_or_default();
            out.note(tid, broken);
            let (protected, broken) = classes.protected(&thread);
            out.note(tid, broken);
            let (address, id) = (thread.address, thread.managed_id);
            out.threads.by_tid.entry(tid).or_default().push(api::ManagedThread { address, id, marks });
            let finalizer = finalizer == Some(address);
            out.by_address.insert(address, KnownThread { thread, protected, finalizer });
        }
        out
    }

    fn note(&mut self, tid: u32, broken: Option<String>) {
        let note = broken.map(|broken| (WarningCode::Frames, format!("thread {tid}: {broken}")));
        self.threads.notes.extend(note);
    }
}

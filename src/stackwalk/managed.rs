//! The runtimes' threads, with the explicit Frames on their stacks.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dotnet::{self, ExplicitFrame, FrameClasses, ManagedThread, Methods, ProtectedRef};
use crate::phase::Phase;
use crate::process::Process;

/// A thread of a runtime, and which runtime's.
pub struct Known<'a, 'p> {
    /// The runtime's methods.
    pub methods: &'a Methods<'p>,
    /// What the runtime knows of it.
    pub thread: ManagedThread,
    /// The runtime's marks on its stack, lowest first.
    pub frames: Vec<ExplicitFrame>,
    /// References that the runtime's own code keeps in lists.
    pub protected: Vec<ProtectedRef>,
    /// Whether it is the one that runs finalizers.
    pub finalizer: bool,
}

/// Whether what can't be read is part of the answer, or only of an extra to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// It is not told.
    Yes,
    /// It is told.
    No,
}

/// The runtimes' threads, by the system's number.
pub fn managed_threads<'a, 'p>(
    process: &Process,
    runtimes: &'a [Arc<Methods<'p>>],
    quiet: Quiet,
) -> HashMap<u32, Vec<Known<'a, 'p>>> {
    let tell = |code, message| {
        if quiet == Quiet::No {
            process.diag.partial(code, message);
        }
    };
    let _phase = process.enter(Phase::ManagedThreads);
    let mut out: HashMap<u32, Vec<Known<'a, 'p>>> = HashMap::new();
    for methods in runtimes {
        let runtime = &*methods.types.runtime;
        let (list, broken) = match dotnet::threads(process, runtime) {
            Ok(found) => found,
            Err(e) => {
                tell("dotnet", format!("{}: threads: {e}", runtime.name()));
                continue;
            }
        };
        if let Some(broken) = broken {
            tell("dotnet", format!("{}: {broken}", runtime.name()));
        }
        let finalizer = runtime.roots.pointer(&process.memory, &runtime.layout, "FinalizerThread").ok();
        let classes = FrameClasses::new(methods.types.memory, runtime);
        for thread in list.iter().cloned() {
            let Some(tid) = thread.os_id.filter(|&id| id != 0) else { continue };
            let (frames, broken) = thread.frame.map(|first| classes.list(first)).unwrap_or_default();
            if let Some(broken) = broken {
                tell("frames", format!("thread {tid}: {broken}"));
            }
            let (protected, broken) = classes.protected(&thread);
            if let Some(broken) = broken {
                tell("frames", format!("thread {tid}: {broken}"));
            }
            let finalizer = finalizer == Some(thread.address);
            out.entry(tid).or_default().push(Known { methods, thread, frames, protected, finalizer });
        }
    }
    out
}

//! Thread states, and the system threads that they belong to.

use std::collections::HashMap;

use super::gil::Gil;
use super::names::{ThreadObject, thread_objects};
use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{ManagedRun, ManagedThread, ManagedThreads};
use crate::runtimes::cpython::frames::{Codes, PyFrame, PyRun, stack};
use crate::runtimes::cpython::runtime::Runtime;
use crate::units::count;

#[derive(Clone, Debug)]
pub(in crate::runtimes::cpython) struct PyThread {
    pub(in crate::runtimes::cpython) address: Addr,
    /// ID of its interpreter. 0 is the main one.
    pub(in crate::runtimes::cpython) number: Option<u64>,
    /// `threading.get_ident()`, which is the pthread_t.
    pub(in crate::runtimes::cpython) ident: Option<u64>,
    /// System thread ID. `None` if the core has no such thread.
    pub(in crate::runtimes::cpython) tid: Option<u32>,
    pub(in crate::runtimes::cpython) runs: Vec<PyRun>,
    /// Data from its `threading.Thread`.
    pub(in crate::runtimes::cpython) object: Option<ThreadObject>,
    pub(in crate::runtimes::cpython) gil: Option<Gil>,
}

impl PyThread {
    /// All frames, innermost first.
    pub(in crate::runtimes::cpython) fn frames(&self) -> impl Iterator<Item = &PyFrame> {
        self.runs.iter().flat_map(|run| &run.frames)
    }
}

#[derive(Debug, Default)]
pub(in crate::runtimes::cpython) struct Threads {
    /// Thread states, by interpreter.
    pub(in crate::runtimes::cpython) all: Vec<PyThread>,
    /// The same in the terms of the runtime interface.
    pub(in crate::runtimes::cpython) managed: ManagedThreads,
}

impl Threads {
    pub(in crate::runtimes::cpython) fn read(runtime: &Runtime<'_>) -> Threads {
        let mut out = Threads::default();
        let mut notes = Vec::new();
        let system = System::of(runtime.process);
        let walks = Walks::new(Phase::ManagedThreads, limits::MAX_PY_FRAMES);
        let objects = runtime.objects();
        let mut bridged = 0_u64;
        for interpreter in &runtime.interpreters {
            let names = thread_objects(runtime, &objects, *interpreter);
            let gil = Gil::of(runtime, *interpreter);
            let number = runtime.view("PyInterpreterState", *interpreter).u64("id").ok();
            let (states, ended) = runtime.thread_states(*interpreter);
            notes.extend(ended.map(|e| e.to_string()));
            for address in states {
                let stack = stack(runtime, &walks, address);
                let runs = stack.runs;
                bridged += u64::from(stack.bridged);
                notes.extend(stack.ended.map(|e| format!("the thread state at {address}: {e}")));
                let view = runtime.view("PyThreadState", address);
                let ident = view.u64("thread_id").ok().filter(|ident| *ident != 0);
                let native = view.u64("native_thread_id").ok().and_then(|tid| u32::try_from(tid).ok());
                // In 3.12 a sub-interpreter's thread state has the IDs of the thread that created it, so the stack is
                // the best evidence.
                let by_stack = runs.iter().find_map(|run| system.by_stack(run.anchor?));
                let by_number = native.filter(|tid| system.tids.contains_key(tid));
                let by_ident = ident.and_then(|ident| system.by_pointer.get(&ident).copied());
                let tid = by_stack.or(by_number).or(by_ident);
                // If the ident belongs to another thread, it would lead to that thread's name.
                let own = by_ident.is_none() || by_ident == tid;
                let object = ident.filter(|_| own).and_then(|ident| names.get(&ident).cloned());
                out.all.push(PyThread { address, number, ident, tid, runs, object, gil });
            }
        }
        if bridged > 0 {
            notes.push(format!(
                "C stacks of {} lack the links between frames. Their frames are listed in memory order, without frames \
                 of generators and coroutines",
                count(bridged, "thread")
            ));
        }
        // If several are on one thread, the running one comes first: stacks grow down.
        let mut order: Vec<&PyThread> = out.all.iter().collect();
        order.sort_by_key(|thread| {
            let anchor = thread.runs.first().and_then(|run| run.anchor);
            (thread.runs.is_empty(), anchor.unwrap_or(Addr::MAX))
        });
        for (thread, tid) in order.into_iter().filter_map(|thread| Some((thread, thread.tid?))) {
            let known = ManagedThread { address: thread.address, id: None, marks: Vec::new() };
            out.managed.by_tid.entry(tid).or_default().push(known);
        }
        let label = runtime.name();
        out.managed.notes =
            notes.into_iter().map(|note| (WarningCode::Cpython, format!("{label}: threads: {note}"))).collect();
        out
    }

    /// The thread states of a system thread.
    pub(in crate::runtimes::cpython) fn of(&self, tid: u32) -> impl Iterator<Item = &PyThread> {
        self.all.iter().filter(move |thread| thread.tid == Some(tid))
    }

    pub(in crate::runtimes::cpython) fn at(&self, address: Addr) -> Option<&PyThread> {
        self.all.iter().find(|thread| thread.address == address)
    }

    /// The runs of a system thread in all interpreters, newest first.
    pub(in crate::runtimes::cpython) fn runs(&self, codes: &Codes<'_>, tid: u32) -> Vec<ManagedRun> {
        let mut all: Vec<&PyRun> = self.of(tid).flat_map(|thread| &thread.runs).collect();
        // Runs of one interpreter are in order already. Stacks grow down.
        if self.of(tid).filter(|thread| !thread.runs.is_empty()).count() > 1 {
            all.sort_by_key(|run| run.anchor.unwrap_or(Addr::MAX));
        }
        let run = |run: &PyRun| ManagedRun {
            anchor: run.anchor,
            methods: run.frames.iter().map(|frame| codes.activation(frame)).collect(),
        };
        all.into_iter().map(run).collect()
    }
}

/// The system's threads, with indexes to find them.
struct System<'p> {
    process: &'p Process,
    tids: HashMap<u32, Addr>,
    by_pointer: HashMap<u64, u32>,
    /// Stack pointers, in ascending order.
    stacks: Vec<(Addr, u32)>,
}

impl<'p> System<'p> {
    fn of(process: &'p Process) -> System<'p> {
        let threads = process.threads();
        let tids = threads.iter().map(|thread| (thread.tid, thread.registers.sp())).collect();
        let pointer = |thread: &crate::targets::Thread| Some((thread.thread_pointer?.get(), thread.tid));
        let mut stacks: Vec<(Addr, u32)> = threads.iter().map(|thread| (thread.registers.sp(), thread.tid)).collect();
        stacks.sort_unstable();
        System { process, tids, by_pointer: threads.iter().filter_map(pointer).collect(), stacks }
    }

    /// The thread whose stack contains `addr`: the one with the nearest stack pointer below, in the same mapping.
    fn by_stack(&self, addr: Addr) -> Option<u32> {
        let below = self.stacks.partition_point(|(sp, _)| *sp <= addr).checked_sub(1)?;
        let (sp, tid) = *self.stacks.get(below)?;
        let whole = |addr| self.process.mapping_at(addr).map(|mapping| mapping.whole);
        whole(sp).filter(|mapping| Some(*mapping) == whole(addr)).map(|_| tid)
    }
}

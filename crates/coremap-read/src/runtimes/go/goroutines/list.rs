//! The list of goroutines, and of threads (`m`).
//!
//! Source: runtime/runtime2.go (`g`, `m`, `gobuf`), proc.go (`allgs`, `allm`).

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::diag::was_read;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;

/// Bit of `atomicstatus` that the collector sets while it scans the stack.
const SCAN: u32 = 0x1000;

/// Values of `atomicstatus`.
const IDLE: u32 = 0;
pub(super) const RUNNING: u32 = 2;
pub(super) const SYSCALL: u32 = 3;
const WAITING: u32 = 4;
const DEAD: u32 = 6;
const LEAKED: u32 = 10;
const DEAD_EXTRA: u32 = 11;

/// States as Go's traces print them, by `atomicstatus`.
const STATES: [&str; 12] = [
    "idle",
    "runnable",
    "running",
    "syscall",
    "waiting",
    "moribund",
    "dead",
    "enqueue",
    "copystack",
    "preempted",
    "leaked",
    "dead",
];

/// A goroutine that has not ended.
#[derive(Clone, Debug)]
pub(in crate::runtimes::go) struct Goroutine {
    /// Address of its `g`.
    pub(in crate::runtimes::go) at: Addr,
    /// Its number.
    pub(in crate::runtimes::go) id: u64,
    pub(super) status: u32,
    /// State as Go's traces print it: the reason for which it waits, or else its status.
    pub(in crate::runtimes::go) state: &'static str,
    /// Its stack.
    pub(in crate::runtimes::go) stack: AddrRange,
    /// Address of the `m` that runs it. Null if none does.
    pub(in crate::runtimes::go) m: Addr,
    /// Instruction and stack pointer where it stopped running, or where it entered a system call.
    pub(super) pc: Addr,
    pub(super) sp: Addr,
    /// Address after the `go` statement that started it.
    pub(in crate::runtimes::go) gopc: Addr,
    /// Entry of its first function.
    pub(in crate::runtimes::go) startpc: Addr,
    /// Its first `sudog`: what it waits for.
    pub(in crate::runtimes::go) waiting: Addr,
}

impl Goroutine {
    /// Returns the used part of its stack, if it does not run.
    pub(in crate::runtimes::go) fn used_stack(&self) -> AddrRange {
        AddrRange::new(self.sp.clamp(self.stack.start, self.stack.end), self.stack.end)
    }
}

/// A thread.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtimes::go) struct M {
    pub(in crate::runtimes::go) at: Addr,
    /// Thread id of the system. 0 if it has not started.
    pub(in crate::runtimes::go) tid: u32,
    /// The goroutine that it runs. Null if none.
    pub(in crate::runtimes::go) current: Addr,
    /// The goroutines of the scheduler and of signal handlers.
    pub(in crate::runtimes::go) g0: Addr,
    pub(in crate::runtimes::go) gsignal: Addr,
    /// Number of the thread in the runtime.
    pub(in crate::runtimes::go) id: u64,
}

/// Goroutines and threads.
#[derive(Debug, Default)]
pub(in crate::runtimes::go) struct List {
    /// In the order of their numbers.
    pub(in crate::runtimes::go) all: Vec<Goroutine>,
    pub(in crate::runtimes::go) threads: Vec<M>,
    /// Index into `threads` by address.
    pub(in crate::runtimes::go) by_m: HashMap<Addr, usize>,
    /// Number of goroutines whose `g` is not in the core.
    pub(in crate::runtimes::go) unread: u64,
    /// Why the list of threads ends early.
    pub(in crate::runtimes::go) broken: Option<String>,
}

impl List {
    pub(in crate::runtimes::go) fn read(runtime: &Runtime<'_>) -> List {
        was_read("goroutines");
        let _phase = runtime.process.enter(Phase::ManagedThreads);
        let mut out = List::default();
        out.read_goroutines(runtime);
        out.read_threads(runtime);
        out
    }

    fn read_goroutines(&mut self, runtime: &Runtime<'_>) {
        let (memory, layout) = (runtime.memory(), runtime.proof.layout);
        let reasons: Vec<&'static str> = layout.text("waitReasonStrings").unwrap_or_default().split('\n').collect();
        let words = runtime.proof.globals.allgs.and_then(|at| {
            let head = Record::read(memory, at, 16)?;
            Record::read(memory, head.ptr(0), head.u64(8).min(limits::MAX_GO_GOROUTINES).checked_mul(8)?)
        });
        let Some(words) = words else { return };
        for word in words.bytes().as_chunks::<8>().0 {
            match goroutine(runtime, &reasons, Addr::new(u64::from_le_bytes(*word))) {
                Some(found) => self.all.extend(found),
                None => self.unread += 1,
            }
        }
        self.all.sort_by_key(|g| g.id);
    }

    fn read_threads(&mut self, runtime: &Runtime<'_>) {
        let shape = &runtime.shape().m;
        let walks = Walks::new(Phase::ManagedThreads, limits::MAX_GO_THREADS);
        let Some(first) = runtime.proof.globals.allm else { return };
        let end = walks.begin().follow(first, |at| {
            let r = Record::read(runtime.memory(), at, shape.size).ok_or("is not in the core")?;
            self.by_m.insert(at, self.threads.len());
            self.threads.push(M {
                at,
                tid: u32::try_from(r.u64(shape.procid)).unwrap_or(0),
                current: r.ptr(shape.curg),
                g0: r.ptr(shape.g0),
                gsignal: r.ptr(shape.gsignal),
                id: r.u64(shape.id),
            });
            Ok::<_, &str>(r.ptr(shape.alllink))
        });
        self.broken = end.err().map(|why| format!("the list of threads (allm) {why}"));
    }

    /// Stacks of goroutines that threads run, and of the scheduler and signal handlers of each thread.
    pub(in crate::runtimes::go) fn stacks_of_threads(&self, runtime: &Runtime<'_>) -> Vec<AddrRange> {
        let memory = runtime.memory();
        let stack = |g: Addr| Record::read(memory, g, 16).map(|r| AddrRange::new(r.ptr(0), r.ptr(8)));
        let own = self.threads.iter().flat_map(|m| [m.g0, m.gsignal, m.current]).filter(|g| !g.is_null());
        let running = self.all.iter().filter(|g| self.by_m.contains_key(&g.m)).map(|g| g.stack);
        own.filter_map(stack).chain(running).collect()
    }

    /// The thread that runs a goroutine.
    pub(in crate::runtimes::go) fn thread_of(&self, g: &Goroutine) -> Option<&M> {
        self.threads.get(*self.by_m.get(&g.m)?)
    }
}

/// The goroutine at an address. `Some(None)` if it has ended. `None` if it can't be read.
fn goroutine(runtime: &Runtime<'_>, reasons: &[&'static str], at: Addr) -> Option<Option<Goroutine>> {
    let shape = runtime.shape();
    let g = &shape.g;
    let r = Record::read(runtime.memory(), at, g.size)?;
    let status = r.u32(g.atomicstatus) & !SCAN;
    if [IDLE, DEAD, DEAD_EXTRA].contains(&status) {
        return Some(None);
    }
    let reason = reasons.get(usize::from(r.u8(g.waitreason))).filter(|reason| !reason.is_empty());
    let word = STATES.get(status as usize).copied().unwrap_or("unknown");
    let (sp, pc) = match status {
        SYSCALL => (r.ptr(g.syscallsp), r.ptr(g.syscallpc)),
        _ => (r.ptr(g.sched + shape.gobuf.sp), r.ptr(g.sched + shape.gobuf.pc)),
    };
    Some(Some(Goroutine {
        at,
        id: r.u64(g.goid),
        status,
        state: if [WAITING, LEAKED].contains(&status) { reason.copied().unwrap_or(word) } else { word },
        stack: AddrRange::new(r.ptr(0), r.ptr(8)),
        m: r.ptr(g.m),
        pc,
        sp,
        gopc: r.ptr(g.gopc),
        startpc: r.ptr(g.startpc),
        waiting: r.ptr(g.waiting),
    }))
}

//! A session owns what was read of one process. Each item is read when first requested, then borrowed.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::addr::Addr;
use crate::cpython::CPython;
use crate::diag::was_read;
use crate::dotnet::CoreClr;
use crate::hotspot::HotSpot;
use crate::introspect::{Introspection, introspect};
use crate::managed::graph::{Graphs, Keeping};
use crate::managed::{BlockLabels, ManagedRuntime, Mark, Roots, Run, Walk};
use crate::map::{AddressMap, Kind, Owner, Region};
use crate::native::NativeSymbols;
use crate::native::malloc::{Blocks, FreeLists, Malloc, read_blocks};
use crate::native::stacks::{self, Stacks};
use crate::nativeaot::NativeAot;
use crate::process::Process;
use crate::stackwalk::Walker;
use crate::targets::Thread;

/// An analysis session: the process, and everything read of it so far.
///
/// ```
/// # use std::path::Path;
/// use coremap::commands;
/// use coremap::process::{Options, Process};
/// use coremap::progress::Progress;
/// use coremap::session::Session;
///
/// let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
/// let process = Process::open(core, &Options::default(), &Progress::silent())?;
/// let session = Session::new(&process);
/// // The map is computed for the first call and reused by the second.
/// let summary = commands::summary(&session, false, &Progress::silent());
/// assert_eq!(summary.total.count, session.map().regions.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session<'p> {
    /// The process.
    pub process: &'p Process,
    /// Runtimes supplied by the caller of the library.
    others: Vec<Box<dyn ManagedRuntime + 'p>>,
    coreclr: OnceLock<Vec<CoreClr<'p>>>,
    hotspot: OnceLock<Vec<HotSpot<'p>>>,
    cpython: OnceLock<Vec<CPython<'p>>>,
    nativeaot: OnceLock<Vec<NativeAot<'p>>>,
    /// Stacks found by evidence, without guesses.
    stacks: OnceLock<Stacks>,
    whole: OnceLock<Introspection>,
    blocks: OnceLock<(FreeLists, Blocks)>,
    symbols: OnceLock<NativeSymbols<'p>>,
    threads: OnceLock<HashMap<u32, &'p Thread>>,
    graphs: Graphs,
}

impl<'p> Session<'p> {
    /// Creates a session for `process`. Nothing is read yet.
    pub fn new(process: &'p Process) -> Session<'p> {
        Session::with_runtimes(process, Vec::new())
    }

    /// Creates a session with runtimes in addition to those that coremap finds.
    pub fn with_runtimes(process: &'p Process, others: Vec<Box<dyn ManagedRuntime + 'p>>) -> Session<'p> {
        Session {
            process,
            others,
            coreclr: OnceLock::new(),
            hotspot: OnceLock::new(),
            cpython: OnceLock::new(),
            nativeaot: OnceLock::new(),
            stacks: OnceLock::new(),
            whole: OnceLock::new(),
            blocks: OnceLock::new(),
            symbols: OnceLock::new(),
            threads: OnceLock::new(),
            graphs: Graphs::default(),
        }
    }

    /// The map: one label for each byte.
    pub fn map(&self) -> &AddressMap {
        &self.whole().map
    }

    /// Thread stacks, guesses included.
    #[doc(hidden)]
    pub fn stacks(&self) -> &Stacks {
        &self.whole().stacks
    }

    /// Thread stacks found by evidence. Guesses are excluded, because they need the whole map.
    #[doc(hidden)]
    pub fn known_stacks(&self) -> &Stacks {
        self.stacks.get_or_init(|| {
            was_read("stacks");
            stacks::find(self.process, self.process.base())
        })
    }

    /// The C library's malloc.
    #[doc(hidden)]
    pub fn malloc(&self) -> &Malloc {
        &self.whole().malloc
    }

    fn whole(&self) -> &Introspection {
        self.whole.get_or_init(|| {
            was_read("map");
            introspect(self.process, self.known_stacks(), |claims| {
                self.runtimes().iter().for_each(|runtime| runtime.claim(claims));
            })
        })
    }

    /// The managed runtimes of the process. The index of a runtime is its number in stack frames.
    pub fn runtimes(&self) -> Vec<&(dyn ManagedRuntime + 'p)> {
        let found = self.coreclr().iter().map(|runtime| runtime as &dyn ManagedRuntime);
        let found = found.chain(self.hotspot().iter().map(|runtime| runtime as &dyn ManagedRuntime));
        let found = found.chain(self.cpython().iter().map(|runtime| runtime as &dyn ManagedRuntime));
        let found = found.chain(self.nativeaot().iter().map(|runtime| runtime as &dyn ManagedRuntime));
        found.chain(self.others.iter().map(|runtime| &**runtime)).collect()
    }

    /// The .NET (CoreCLR) runtimes among [`Session::runtimes`].
    #[doc(hidden)]
    pub fn coreclr(&self) -> &[CoreClr<'p>] {
        self.coreclr.get_or_init(|| {
            was_read("runtimes");
            CoreClr::find(self.process)
        })
    }

    /// The Java VMs among [`Session::runtimes`].
    #[doc(hidden)]
    pub fn hotspot(&self) -> &[HotSpot<'p>] {
        self.hotspot.get_or_init(|| HotSpot::find(self.process))
    }

    /// The CPython runtimes among [`Session::runtimes`].
    #[doc(hidden)]
    pub fn cpython(&self) -> &[CPython<'p>] {
        self.cpython.get_or_init(|| CPython::find(self.process))
    }

    /// The NativeAOT runtimes among [`Session::runtimes`].
    #[doc(hidden)]
    pub fn nativeaot(&self) -> &[NativeAot<'p>] {
        self.nativeaot.get_or_init(|| NativeAot::find(self.process))
    }

    /// Creates a stack walker that unwinds through the code of all runtimes. `stacks`: bounds of the thread
    /// stacks.
    #[doc(hidden)]
    pub fn walker<'s>(&'s self, stacks: &'s Stacks) -> Walker<'s, 'p> {
        Walker::new(self.process, self.runtimes().iter().map(|runtime| runtime.code()).collect(), stacks)
    }

    /// The stack of a thread, unwound by `walker` with the marks of all runtimes.
    #[doc(hidden)]
    pub fn walk(&self, walker: &Walker<'_, 'p>, thread: &Thread) -> Walk {
        walker.walk(thread, self.marks(thread.tid), self.runs(thread.tid))
    }

    /// The stack of the thread with this ID. `None` if there is no such thread.
    #[doc(hidden)]
    pub fn walk_tid(&self, walker: &Walker<'_, 'p>, tid: u32) -> Option<Walk> {
        Some(self.walk(walker, self.thread(tid)?))
    }

    /// The marks of all runtimes on a thread's stack, lowest first.
    fn marks(&self, tid: u32) -> Vec<Mark> {
        let of = |runtime: &&dyn ManagedRuntime| runtime.threads().by_tid.get(&tid).cloned().unwrap_or_default();
        let mut marks: Vec<Mark> = self.runtimes().iter().flat_map(of).flat_map(|thread| thread.marks).collect();
        marks.sort_by_key(|mark| mark.addr);
        marks
    }

    /// Method runs of all runtimes on this thread, each with the index of its runtime.
    fn runs(&self, tid: u32) -> Vec<(usize, Run)> {
        let runtimes = self.runtimes();
        let all = runtimes.iter().enumerate();
        all.flat_map(|(number, runtime)| runtime.runs(tid).into_iter().map(move |run| (number, run))).collect()
    }

    /// Reports what could not be read of the runtimes' threads.
    pub fn tell_threads(&self) {
        for runtime in self.runtimes() {
            for (code, note) in &runtime.threads().notes {
                self.process.diag.partial(*code, note.clone());
            }
        }
    }

    /// GC roots of the runtime with this index.
    pub fn roots(&self, number: usize) -> Roots {
        let runtimes = self.runtimes();
        let Some(runtime) = runtimes.get(number) else { return Roots::default() };
        self.tell_threads();
        let walker = self.walker(self.stacks());
        runtime.roots(number, &mut |tid| self.walk_tid(&walker, tid))
    }

    /// Graphs of the managed heaps.
    pub(crate) fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// Retains the graph of each heap for later requests while the returned guard lives.
    pub(crate) fn keep_graphs(&self) -> Keeping<'_> {
        self.graphs.keep()
    }

    /// The thread with this ID, with its registers.
    pub fn thread(&self, tid: u32) -> Option<&'p Thread> {
        let by_tid = || self.process.threads().iter().rev().map(|thread| (thread.tid, thread)).collect();
        self.threads.get_or_init(by_tid).get(&tid).copied()
    }

    /// All malloc blocks, and the free lists that show which of them are free.
    #[doc(hidden)]
    pub fn blocks(&self) -> &(FreeLists, Blocks) {
        self.blocks.get_or_init(|| {
            was_read("blocks of malloc");
            read_blocks(self.process, self.malloc())
        })
    }

    /// Labels that a runtime writes into its malloc blocks, if one does.
    #[doc(hidden)]
    pub fn block_labels(&self) -> Option<&dyn BlockLabels> {
        self.runtimes().into_iter().find_map(|runtime| runtime.block_labels())
    }

    /// Names of native code.
    #[doc(hidden)]
    pub fn symbols(&self) -> &NativeSymbols<'p> {
        self.symbols.get_or_init(|| NativeSymbols::new(self.process))
    }

    /// The stack pointer of the thread that owns stack `region`, if it points into `region`.
    pub fn sp_in(&self, region: &Region) -> Option<Addr> {
        let Owner::Thread(tid) = region.owner else { return None };
        let mut used = self.stacks().used_by(tid).filter(|_| region.kind == Kind::Stack).filter_map(|s| s.sp);
        used.find(|sp| region.range.contains(*sp))
    }

    /// Whether `addr` in `region` is below the stack pointer, so that it is no longer in use.
    pub fn is_left_over(&self, region: &Region, addr: Addr) -> bool {
        self.sp_in(region).is_some_and(|sp| addr < sp)
    }
}

//! What was read of one process, kept by one owner: each part is made when it is first
//! asked for, and borrowed from then on.

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

/// A process that questions are asked about.
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
/// // The map is made for the first of these and serves both.
/// let summary = commands::summary(&session, false, &Progress::silent());
/// assert_eq!(summary.total.count, session.map().regions.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session<'p> {
    /// The process.
    pub process: &'p Process,
    /// Runtimes that the user of the library knows of.
    others: Vec<Box<dyn ManagedRuntime + 'p>>,
    coreclr: OnceLock<Vec<CoreClr<'p>>>,
    hotspot: OnceLock<Vec<HotSpot<'p>>>,
    cpython: OnceLock<Vec<CPython<'p>>>,
    nativeaot: OnceLock<Vec<NativeAot<'p>>>,
    /// Stacks that are no guesses.
    stacks: OnceLock<Stacks>,
    whole: OnceLock<Introspection>,
    blocks: OnceLock<(FreeLists, Blocks)>,
    symbols: OnceLock<NativeSymbols<'p>>,
    threads: OnceLock<HashMap<u32, &'p Thread>>,
    graphs: Graphs,
}

impl<'p> Session<'p> {
    /// Questions about `process`. Nothing is read yet.
    pub fn new(process: &'p Process) -> Session<'p> {
        Session::with_runtimes(process, Vec::new())
    }

    /// The same, with runtimes beside those that are found.
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

    /// The one label of every byte.
    pub fn map(&self) -> &AddressMap {
        &self.whole().map
    }

    /// Stacks of threads, those that are guesses too.
    #[doc(hidden)]
    pub fn stacks(&self) -> &Stacks {
        &self.whole().stacks
    }

    /// Stacks of threads that something tells of: without the guesses, which the whole map
    /// is needed for.
    #[doc(hidden)]
    pub fn known_stacks(&self) -> &Stacks {
        self.stacks.get_or_init(|| {
            was_read("stacks");
            stacks::find(self.process, self.process.base())
        })
    }

    /// malloc of the C library.
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

    /// The managed runtimes of the process. Their places here are the numbers that frames
    /// of stacks have.
    pub fn runtimes(&self) -> Vec<&(dyn ManagedRuntime + 'p)> {
        let found = self.coreclr().iter().map(|runtime| runtime as &dyn ManagedRuntime);
        let found = found.chain(self.hotspot().iter().map(|runtime| runtime as &dyn ManagedRuntime));
        let found = found.chain(self.cpython().iter().map(|runtime| runtime as &dyn ManagedRuntime));
        let found = found.chain(self.nativeaot().iter().map(|runtime| runtime as &dyn ManagedRuntime));
        found.chain(self.others.iter().map(|runtime| &**runtime)).collect()
    }

    /// Those of them that are .NET's, for what only these have.
    #[doc(hidden)]
    pub fn coreclr(&self) -> &[CoreClr<'p>] {
        self.coreclr.get_or_init(|| {
            was_read("runtimes");
            CoreClr::find(self.process)
        })
    }

    /// Those of them that are Java VMs, for what only these have.
    #[doc(hidden)]
    pub fn hotspot(&self) -> &[HotSpot<'p>] {
        self.hotspot.get_or_init(|| HotSpot::find(self.process))
    }

    /// Those of them that are CPython, for what only these have.
    #[doc(hidden)]
    pub fn cpython(&self) -> &[CPython<'p>] {
        self.cpython.get_or_init(|| CPython::find(self.process))
    }

    /// Those of them that are NativeAOT, for what only these have.
    #[doc(hidden)]
    pub fn nativeaot(&self) -> &[NativeAot<'p>] {
        self.nativeaot.get_or_init(|| NativeAot::find(self.process))
    }

    /// Follows stacks, through the code of all runtimes; `stacks`: where they lie.
    #[doc(hidden)]
    pub fn walker<'s>(&'s self, stacks: &'s Stacks) -> Walker<'s, 'p> {
        Walker::new(self.process, self.runtimes().iter().map(|runtime| runtime.code()).collect(), stacks)
    }

    /// The stack of a thread, as `walker` follows it through the marks of all runtimes.
    #[doc(hidden)]
    pub fn walk(&self, walker: &Walker<'_, 'p>, thread: &Thread) -> Walk {
        walker.walk(thread, self.marks(thread.tid), self.runs(thread.tid))
    }

    /// The same of the thread of that number; `None` where there is none.
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

    /// What runtimes list of a thread's methods, with the number of the runtime.
    fn runs(&self, tid: u32) -> Vec<(usize, Run)> {
        let runtimes = self.runtimes();
        let all = runtimes.iter().enumerate();
        all.flat_map(|(number, runtime)| runtime.runs(tid).into_iter().map(move |run| (number, run))).collect()
    }

    /// Tell what of the runtimes' threads could not be read.
    pub fn tell_threads(&self) {
        for runtime in self.runtimes() {
            for (code, note) in &runtime.threads().notes {
                self.process.diag.partial(*code, note.clone());
            }
        }
    }

    /// What keeps the objects of the runtime of that number.
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

    /// Keep the graph of each heap for whoever asks for it next, as long as what this gives lives.
    pub(crate) fn keep_graphs(&self) -> Keeping<'_> {
        self.graphs.keep()
    }

    /// The thread of that number, with its registers.
    pub fn thread(&self, tid: u32) -> Option<&'p Thread> {
        let by_tid = || self.process.threads().iter().rev().map(|thread| (thread.tid, thread)).collect();
        self.threads.get_or_init(by_tid).get(&tid).copied()
    }

    /// All blocks of malloc, with the lists that tell which of them are free.
    #[doc(hidden)]
    pub fn blocks(&self) -> &(FreeLists, Blocks) {
        self.blocks.get_or_init(|| {
            was_read("blocks of malloc");
            read_blocks(self.process, self.malloc())
        })
    }

    /// What a runtime notes in its blocks of malloc, if one does.
    #[doc(hidden)]
    pub fn block_labels(&self) -> Option<&dyn BlockLabels> {
        self.runtimes().into_iter().find_map(|runtime| runtime.block_labels())
    }

    /// Names of native code.
    #[doc(hidden)]
    pub fn symbols(&self) -> &NativeSymbols<'p> {
        self.symbols.get_or_init(|| NativeSymbols::new(self.process))
    }

    /// The stack pointer of the thread whose stack `region` is, where it lies in it.
    pub fn sp_in(&self, region: &Region) -> Option<Addr> {
        let Owner::Thread(tid) = region.owner else { return None };
        let mut used = self.stacks().used_by(tid).filter(|_| region.kind == Kind::Stack).filter_map(|s| s.sp);
        used.find(|sp| region.range.contains(*sp))
    }

    /// Whether `addr`, in `region`, lies below a stack pointer: nobody uses it any more.
    pub fn is_left_over(&self, region: &Region, addr: Addr) -> bool {
        self.sp_in(region).is_some_and(|sp| addr < sp)
    }
}

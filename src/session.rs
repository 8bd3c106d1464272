//! What was read of one process, kept by one owner: each part is made when it is first
//! asked for, and borrowed from then on.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::addr::Addr;
use crate::diag::was_read;
use crate::introspect::{Introspection, introspect};
use crate::managed::graph::{Graphs, Keeping};
use crate::managed::{BlockLabels, ManagedCode, ManagedRuntime, Mark, Roots, RuntimeId, Walk};
use crate::map::{AddressMap, Kind, Owner, Region};
use crate::native::NativeSymbols;
use crate::native::malloc::{Blocks, FreeLists, Malloc, read_blocks};
use crate::native::stacks::{self, Stacks};
use crate::process::Process;
use crate::runtimes::{self, Found};
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
    /// Runtimes that were found.
    found: OnceLock<Vec<Found<'p>>>,
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
            found: OnceLock::new(),
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

    /// The managed runtimes of the process.
    pub fn runtimes(&self) -> Vec<&(dyn ManagedRuntime + 'p)> {
        let found = self.found().iter().map(Found::runtime);
        found.chain(self.others.iter().map(|runtime| &**runtime)).collect()
    }

    /// The managed runtimes with the ids by which frames of stacks name them.
    pub fn runtimes_by_id(&self) -> Vec<(RuntimeId, &(dyn ManagedRuntime + 'p))> {
        RuntimeId::all().zip(self.runtimes()).collect()
    }

    /// The runtime of that id.
    pub fn runtime(&self, id: RuntimeId) -> Option<&(dyn ManagedRuntime + 'p)> {
        self.runtimes_by_id().into_iter().find(|(runtime, _)| *runtime == id).map(|(_, runtime)| runtime)
    }

    /// The code of all runtimes.
    pub(crate) fn codes(&self) -> Vec<(RuntimeId, &dyn ManagedCode)> {
        self.runtimes_by_id().into_iter().map(|(id, runtime)| (id, runtime.code())).collect()
    }

    /// The runtimes that were found, some of them by type, for commands that only one runtime has.
    #[doc(hidden)]
    pub fn found(&self) -> &[Found<'p>] {
        self.found.get_or_init(|| {
            was_read("runtimes");
            runtimes::find(self.process)
        })
    }

    /// The same, with their ids.
    pub(crate) fn found_by_id(&self) -> impl Iterator<Item = (RuntimeId, &Found<'p>)> {
        RuntimeId::all().zip(self.found())
    }

    /// Follows stacks, through the code of all runtimes; `stacks`: where they lie.
    #[doc(hidden)]
    pub fn walker<'s>(&'s self, stacks: &'s Stacks) -> Walker<'s, 'p> {
        let lists = self.runtimes_by_id().into_iter().filter_map(|(id, runtime)| Some((id, runtime.listed_methods()?)));
        Walker::new(self.process, self.codes(), stacks).with_lists(lists.collect())
    }

    /// The stack of a thread, as `walker` follows it through the marks of all runtimes.
    #[doc(hidden)]
    pub fn walk(&self, walker: &Walker<'_, 'p>, thread: &Thread) -> Walk {
        walker.walk(thread, self.marks(thread.tid))
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

    /// Tell what of the runtimes' threads could not be read.
    pub fn tell_threads(&self) {
        for runtime in self.runtimes() {
            for (code, note) in &runtime.threads().notes {
                self.process.diag.partial(*code, note.clone());
            }
        }
    }

    /// What keeps the objects of that runtime.
    pub fn roots(&self, id: RuntimeId) -> Roots {
        let Some(runtime) = self.runtime(id) else { return Roots::default() };
        self.tell_threads();
        let walker = self.walker(self.stacks());
        runtime.roots(id, &mut |tid| self.walk_tid(&walker, tid))
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

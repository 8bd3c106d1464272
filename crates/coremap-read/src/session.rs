//! A session owns what was read from one process. Each item is read when first requested, then borrowed.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::addr::{Addr, AddrRange};
use crate::diag::was_read;
use crate::introspect::{Introspection, introspect};
use crate::map::{AddressMap, Kind, Owner, Region};
use crate::native::NativeSymbols;
use crate::native::malloc::{Blocks, FreeLists, Malloc, read_blocks};
use crate::native::stacks::{self, Stacks};
use crate::process::Process;
use crate::runtimes::api::{
    BlockLabels, Heap, ManagedCode, ManagedRuntime, Mark, Roots, RuntimeId, StackWalk, find_fields,
};
use crate::runtimes::graph::{CacheGuard, GraphCache};
use crate::runtimes::{DetectedRuntime, Finder, Offer, RUNTIMES};
use crate::stackwalk::Walker;
use crate::targets::{SecondView, Thread};

/// An analysis session: the process, and everything read from it so far.
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
    /// Runtimes that were found, by finder.
    found: Vec<OnceLock<Vec<DetectedRuntime<'p>>>>,
    /// Stacks found by evidence, without guesses.
    stacks: OnceLock<Stacks>,
    whole: OnceLock<Introspection>,
    blocks: OnceLock<(FreeLists, Blocks)>,
    symbols: OnceLock<NativeSymbols<'p>>,
    threads: OnceLock<HashMap<u32, &'p Thread>>,
    graphs: GraphCache,
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
            found: RUNTIMES.iter().map(|_| OnceLock::new()).collect(),
            stacks: OnceLock::new(),
            whole: OnceLock::new(),
            blocks: OnceLock::new(),
            symbols: OnceLock::new(),
            threads: OnceLock::new(),
            graphs: GraphCache::default(),
        }
    }

    /// The map: one label for each byte.
    pub fn map(&self) -> &AddressMap {
        &self.whole().map
    }

    /// Thread stacks, guesses included.
    pub fn stacks(&self) -> &Stacks {
        &self.whole().stacks
    }

    /// Thread stacks found by evidence. Guesses are excluded, because they need the whole map.
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

    /// Shared memory that may be a second view of other shared memory. By address, disjoint.
    #[doc(hidden)]
    pub fn undecided_views(&self) -> &[AddrRange] {
        &self.whole().undecided_views
    }

    /// Second views of shared memory. By address.
    #[doc(hidden)]
    pub fn second_views(&self) -> &[SecondView] {
        &self.whole().second_views
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
        self.runtimes_by_id().into_iter().map(|(_, runtime)| runtime).collect()
    }

    /// The managed runtimes with their IDs, which stack frames contain.
    pub fn runtimes_by_id(&self) -> Vec<(RuntimeId, &(dyn ManagedRuntime + 'p))> {
        let found = self.found_if(|_| true).map(|(id, found)| (id, found.runtime()));
        let others = self.others.iter().map(|runtime| &**runtime as &(dyn ManagedRuntime + 'p));
        found.chain(RuntimeId::of(RUNTIMES.len() as u32).zip(others)).collect()
    }

    /// The runtime with this ID.
    pub fn runtime(&self, id: RuntimeId) -> Option<&(dyn ManagedRuntime + 'p)> {
        self.runtimes_by_id().into_iter().find(|(runtime, _)| *runtime == id).map(|(_, runtime)| runtime)
    }

    pub(crate) fn codes(&self) -> Vec<(RuntimeId, &dyn ManagedCode)> {
        self.runtimes_by_id().into_iter().map(|(id, runtime)| (id, runtime.code())).collect()
    }

    #[doc(hidden)]
    pub fn found(&self, offer: Offer) -> impl Iterator<Item = (RuntimeId, &DetectedRuntime<'p>)> {
        self.found_if(move |finder| finder.offers.contains(&offer))
    }

    /// The runtimes of the finders that `is_asked` selects. Other finders don't run.
    fn found_if(&self, is_asked: impl Fn(&Finder) -> bool) -> impl Iterator<Item = (RuntimeId, &DetectedRuntime<'p>)> {
        let cells = (0..).zip(RUNTIMES.iter().zip(&self.found)).filter(move |(_, (finder, _))| is_asked(finder));
        cells.flat_map(|(place, (finder, cell))| {
            let found = cell.get_or_init(|| {
                was_read(finder.name);
                (finder.find)(self.process)
            });
            RuntimeId::of(place).zip(found)
        })
    }

    /// Creates a stack walker that unwinds through the code of all runtimes. `stacks`: bounds of the thread
    /// stacks.
    pub fn walker<'s>(&'s self, stacks: &'s Stacks) -> Walker<'s, 'p> {
        let lists = self.runtimes_by_id().into_iter().filter_map(|(id, runtime)| Some((id, runtime.listed_methods()?)));
        Walker::new(self.process, self.codes(), stacks).with_lists(lists.collect())
    }

    /// The stack of a thread, unwound by `walker` with the marks of all runtimes.
    pub fn walk(&self, walker: &Walker<'_, 'p>, thread: &Thread) -> StackWalk {
        walker.walk(thread, self.marks(thread.tid))
    }

    /// The stack of the thread with this ID. `None` if there is no such thread.
    pub fn walk_tid(&self, walker: &Walker<'_, 'p>, tid: u32) -> Option<StackWalk> {
        Some(self.walk(walker, self.thread(tid)?))
    }

    /// The marks of all runtimes on a thread's stacks, in the order in which the walk meets them. On one stack they are
    /// in the order of addresses. Those on the stack of a signal handler precede those on the thread's own, which may
    /// be lower.
    fn marks(&self, tid: u32) -> Vec<Mark> {
        let of = |runtime: &&dyn ManagedRuntime| runtime.threads().by_tid.get(&tid).cloned().unwrap_or_default();
        let mut marks: Vec<Mark> = self.runtimes().iter().flat_map(of).flat_map(|thread| thread.marks).collect();
        let own = self.known_stacks().of(tid).map(|own| own.stack);
        marks.sort_by_key(|mark| (own.is_some_and(|own| own.contains(mark.addr)), mark.addr));
        marks
    }

    /// Stack pointers of a thread at which a signal interrupted managed code, as the runtimes stored them.
    pub fn interrupted(&self, tid: u32) -> Vec<Addr> {
        let marks = self.marks(tid).into_iter().filter(|mark| mark.exact);
        marks.filter_map(|mark| Some(mark.regs?.sp())).collect()
    }

    /// Adds warnings about threads of the runtimes that could not be read.
    pub fn warn_threads(&self) {
        for runtime in self.runtimes() {
            for (code, note) in &runtime.threads().notes {
                self.process.diag.partial(*code, note.clone());
            }
        }
    }

    /// The GC roots of a runtime.
    pub fn roots(&self, id: RuntimeId) -> Roots {
        let Some(runtime) = self.runtime(id) else { return Roots::default() };
        self.warn_threads();
        let walker = self.walker(self.stacks());
        let mut roots = runtime.roots(id, &mut |tid| self.walk_tid(&walker, tid));
        if let Some(unexplained) = runtime.unexplained_references() {
            let others = self.runtimes_by_id().into_iter().filter(|(other, _)| *other != id);
            let heaps: Vec<&dyn Heap> = others.filter_map(|(_, other)| other.heap()).collect();
            find_fields(self.process.target(), &mut roots.all, unexplained, &heaps);
        }
        roots
    }

    pub(crate) fn graphs(&self) -> &GraphCache {
        &self.graphs
    }

    /// Retains the graph of each heap for later requests while the returned guard lives.
    #[doc(hidden)]
    pub fn retain_graphs(&self) -> CacheGuard<'_> {
        self.graphs.guard()
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

    /// Whether `addr` is below the stack pointer of the stack `region`, and so no longer in use.
    pub fn is_left_over(&self, region: &Region, addr: Addr) -> bool {
        self.sp_in(region).is_some_and(|sp| addr < sp)
    }
}

//! What was read of one process, kept by one owner: each part is made when it is first
//! asked for, and borrowed from then on.

use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::dotnet::{CoreClr, Methods};
use crate::image::NativeSymbols;
use crate::introspect::{Introspection, introspect};
use crate::managed::Roots;
use crate::map::{AddressMap, Kind, Owner, Region};
use crate::native::malloc::{Blocks, FreeLists, Malloc, read_blocks};
use crate::native::stacks::{self, Stacks};
use crate::process::Process;
use crate::stackwalk::stack_refs;

/// A process that questions are asked about.
///
/// ```
/// # use std::path::Path;
/// use coremap::analysis;
/// use coremap::process::{Options, Process};
/// use coremap::progress::Progress;
/// use coremap::session::Session;
///
/// let core = Path::new("testdata/cores/native-glibc-kernel.core.gz");
/// let process = Process::open(core, &Options::default(), &Progress::silent())?;
/// let session = Session::new(&process);
/// // The map is made for the first of these and serves both.
/// let summary = analysis::summary(&session, false, &Progress::silent());
/// assert_eq!(summary.total.count, session.map().regions.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session<'p> {
    /// The process.
    pub process: &'p Process,
    runtimes: OnceLock<Vec<CoreClr<'p>>>,
    methods: OnceLock<Vec<Arc<Methods<'p>>>>,
    /// Stacks that are no guesses.
    stacks: OnceLock<Stacks>,
    whole: OnceLock<Introspection>,
    blocks: OnceLock<(FreeLists, Blocks)>,
    symbols: OnceLock<NativeSymbols<'p>>,
}

impl<'p> Session<'p> {
    /// Questions about `process`. Nothing is read yet.
    pub fn new(process: &'p Process) -> Session<'p> {
        Session {
            process,
            runtimes: OnceLock::new(),
            methods: OnceLock::new(),
            stacks: OnceLock::new(),
            whole: OnceLock::new(),
            blocks: OnceLock::new(),
            symbols: OnceLock::new(),
        }
    }

    /// The one label of every byte.
    pub fn map(&self) -> &AddressMap {
        &self.whole().map
    }

    /// Stacks of threads, those that are guesses too.
    pub fn stacks(&self) -> &Stacks {
        &self.whole().stacks
    }

    /// Stacks of threads that something tells of: without the guesses, which the whole map
    /// is needed for.
    pub fn known_stacks(&self) -> &Stacks {
        self.stacks.get_or_init(|| stacks::find(self.process, self.process.base()))
    }

    /// glibc's malloc.
    pub fn malloc(&self) -> &Malloc {
        &self.whole().malloc
    }

    fn whole(&self) -> &Introspection {
        self.whole.get_or_init(|| {
            introspect(self.process, self.known_stacks(), |claims| {
                self.coreclr().iter().for_each(|runtime| runtime.claim(claims));
            })
        })
    }

    /// The managed runtimes of the process.
    pub fn runtimes(&self) -> &[CoreClr<'p>] {
        self.coreclr()
    }

    /// The .NET runtimes of the process.
    pub fn coreclr(&self) -> &[CoreClr<'p>] {
        self.runtimes.get_or_init(|| CoreClr::find(self.process))
    }

    /// The code of each of them, in the same order.
    pub fn methods(&self) -> &[Arc<Methods<'p>>] {
        self.methods.get_or_init(|| self.coreclr().iter().map(|r| r.methods().clone()).collect())
    }

    /// What keeps the objects of a runtime.
    pub fn roots(&self, runtime: &CoreClr<'p>) -> Roots {
        // A stack may go through the code of several runtimes.
        runtime.roots(&stack_refs(self.process, self.stacks(), self.methods(), runtime.runtime()))
    }

    /// All blocks of malloc, with the lists that tell which of them are free.
    pub fn blocks(&self) -> &(FreeLists, Blocks) {
        self.blocks.get_or_init(|| read_blocks(self.process, self.malloc()))
    }

    /// Names of native code.
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

//! The process that is looked at: target, memory, modules and diagnostics in one place, the
//! single argument of introspectors and analyses.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::addr::{Addr, PAGE};
use crate::bytes;
use crate::core::mapped;
use crate::core::open::{Core, OpenError};
use crate::diag::Diagnostics;
use crate::image::bundle::Bundle;
use crate::image::identity;
use crate::image::symbol_dirs::SymbolDirs;
use crate::image::{Module, ModuleKind, bundle, elf, modules};
use crate::limits;
#[cfg(target_os = "linux")]
use crate::live::{self, How, Live, LiveError};
use crate::map::Base;
use crate::memory::{Fault, Memory, ProcessMemory};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::resident::saved::{self, SavedError};
use crate::targets::budget::{self, Allowed, Spent};
use crate::targets::reads::{InPhase, Loss};
use crate::targets::{AddressSpace, Arch, Facts, FileMapping, Mapping, Producer, Reads, Residence, Target, Thread, at};
use crate::units::round;

/// What the user gives beside the core.
#[derive(Default)]
pub struct Options {
    /// `--symbols` directories.
    pub symbols: Vec<PathBuf>,
    /// /proc/PID/smaps of the process, saved when the core was written (`--smaps`).
    pub smaps: Option<PathBuf>,
    /// Bytes of memory that may be taken (`--memory`), for decompression and for the answer;
    /// `None`: what [`limits`] allow by the size of the core.
    pub memory: Option<u64>,
    /// Whether this program does nothing but answer: then the memory that it has taken is
    /// held to what the core can be worth.
    pub alone: bool,
    /// Have a handler of SIGBUS in this program, so that it outlives a core file that becomes
    /// shorter, or whose disk fails, while it is read ([`mapped::handle_sigbus`]): what can't
    /// be read is zero then, and the answer partial. Without it such a read ends the program:
    /// files are mapped, and the system has no other way to tell. So can a full tmpfs below
    /// `$TMPDIR`, where a compressed core is decompressed to.
    pub handle_sigbus: bool,
    /// Of a process that runs: let it run while it is read. What is read then may not fit together, and of its threads no more
    /// is known than where those stand that wait in the kernel.
    pub no_stop: bool,
    /// Of a process that runs: let it go after so long, whatever is still to be read.
    pub stop_at_most: Option<Duration>,
    /// Of a process that runs: it is to be dumped, so what a core holds beside memory is kept, and its own files are not asked for
    /// names, as whoever reads the core may not have them.
    pub to_dump: bool,
    /// Record which pages are read ([`Process::reads`]).
    pub record: bool,
    /// Record which bytes are read.
    pub record_bytes: bool,
    /// Make the read of this number fail, from 1 on: for tests.
    #[doc(hidden)]
    pub fail_at: Option<u64>,
}

/// Why a process could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The core.
    #[error(transparent)]
    Core(#[from] OpenError),
    /// The process that runs.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A `--symbols` directory.
    #[error("--symbols {0}")]
    Symbols(std::io::Error),
    /// The file of `--smaps`.
    #[error("--smaps: {0}")]
    Smaps(#[from] SavedError),
}

/// Arguments and environment, from the main stack.
#[derive(Clone, Debug, Default)]
pub struct ProcessStrings {
    /// argv
    pub args: Vec<String>,
    /// envp, each `NAME=value`
    pub environment: Vec<String>,
}

/// A process, dumped or one that still runs.
///
/// ```
/// # use std::path::Path;
/// # use coremap::process::{Options, Process};
/// # use coremap::progress::Progress;
/// use coremap::addr::Addr;
/// use coremap::memory::{FaultKind, Memory};
///
/// let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
/// let process = Process::open(core, &Options::default(), &Progress::silent())?;
/// assert_eq!(process.pid(), Some(9854));
/// assert!(process.modules.iter().any(|m| m.path.ends_with("/libc.so.6")));
///
/// // A read gives the bytes, or the reason why there are none.
/// let mut text = [0; 7];
/// process.memory.read(Addr::new(0x557a_682b_6b10), &mut text)?;
/// assert_eq!(&text, b"coremap");
/// let fault = process.memory.read(Addr::new(0x1000), &mut text).unwrap_err();
/// assert_eq!(fault.kind, FaultKind::Unmapped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Process {
    target: Arc<dyn Target>,
    /// Its memory, with files filled in where that was asked for and proven.
    pub memory: ProcessMemory,
    /// Program files in memory, by address.
    pub modules: Vec<Module>,
    /// What is in the program's file, if that is a single-file program of .NET.
    pub bundle: Option<Bundle>,
    /// What went wrong so far.
    pub diag: Diagnostics,
    /// `--symbols` directories, for the names of code.
    pub(crate) symbols: SymbolDirs,
    strings: OnceLock<Option<ProcessStrings>>,
    main_tid: OnceLock<Option<u32>>,
    base: OnceLock<Base>,
}

impl Process {
    /// Open the core at `path`, or on Linux the process that `path` names: `/proc/4711`, or `4711` where no file has that
    /// name. A process that runs stands still from then on, until an answer is put into its
    /// [`envelope`](crate::commands::envelope) or this is dropped.
    ///
    /// # Errors
    /// Where it is no core, the process may not be looked at, or a `--symbols` directory can't be listed.
    pub fn open(path: &Path, options: &Options, progress: &Progress) -> Result<Process, ProcessError> {
        if options.handle_sigbus {
            mapped::handle_sigbus();
        }
        let diag = Diagnostics::default();
        let dirs = SymbolDirs::open(&options.symbols).map_err(ProcessError::Symbols)?;
        let reads = match options {
            Options { record_bytes: true, .. } => Reads::recording_bytes(),
            Options { record: true, .. } => Reads::recording(),
            _ => Reads::default(),
        };
        let reads = options.fail_at.into_iter().fold(reads, Reads::failing_at);
        let allowed = Allowed { memory: options.memory, alone: options.alone };
        #[cfg(target_os = "linux")]
        if let Some(pid) = live::named(path) {
            let how = How { no_stop: options.no_stop, at_most: options.stop_at_most, to_dump: options.to_dump };
            if options.smaps.is_some() {
                diag.note("smaps", "--smaps is of a core: of a process that runs the system is asked");
            }
            let own = Live::open(pid, how, reads, allowed, &diag)?;
            // The files of the process as it sees them, from another container too.
            let root = [PathBuf::from(format!("/proc/{pid}/root"))];
            let roots = if options.symbols.is_empty() { root.as_slice() } else { &options.symbols };
            let names = if options.to_dump { None } else { SymbolDirs::open(roots).ok() };
            let mut process = Process::assemble(Arc::new(own), dirs, diag);
            process.symbols = names.unwrap_or_default();
            return Ok(process);
        }
        let mut core = Core::open_with(path, reads, allowed, &diag, progress)?;
        if let Some(smaps) = &options.smaps {
            core.facts.residence = Some(Arc::new(saved::read(smaps, &core.facts, &diag)?));
        }
        Ok(Process::assemble(Arc::new(core), dirs, diag))
    }

    /// A process that was opened by other means than [`Process::open`].
    pub fn of(target: Arc<dyn Target>) -> Process {
        Process::assemble(target, SymbolDirs::default(), Diagnostics::default())
    }

    fn assemble(target: Arc<dyn Target>, dirs: SymbolDirs, diag: Diagnostics) -> Process {
        let mut memory = ProcessMemory::new(target.clone());
        let phase = target.reads().enter(Phase::Modules);
        let mut found = modules::find(&*target, &memory, &diag);
        let mut bundle = bundle::find(&*target, &memory, &found);
        if !dirs.is_empty() {
            let proving = target.reads().enter(Phase::Proof);
            let proven = identity::prove(&*target, &found, &dirs, &diag);
            let image_only = bundle::prove(&*target, &found, &mut bundle, &proven, &diag);
            let (overlays, originals) = identity::overlays(target.facts(), &found, &proven, image_only);
            drop(proving);
            // Section tables are in the files only, never in memory.
            let tables: Vec<_> = proven
                .iter()
                .filter_map(|p| match &found[p.module].kind {
                    ModuleKind::Elf(image) => Some((found[p.module].range, elf::file_sections(&p.map, image.bias)?)),
                    _ => None,
                })
                .collect();
            let files = proven.into_iter().map(|p| p.map).collect();
            memory = ProcessMemory::with_files(target.clone(), overlays, originals, files);
            // Headers that only the files have tell more of the modules.
            found = modules::find(&*target, &memory, &diag);
            for (range, sections) in tables {
                for module in found.iter_mut().filter(|m| m.range == range) {
                    module.sections.extend(sections.iter().cloned());
                }
            }
        }
        if let Some(bundle) = &bundle {
            bundle::add_modules(&*target, &memory, bundle, &mut found);
        }
        drop(phase);
        let (strings, main_tid, base) = Default::default();
        Process { target, memory, modules: found, bundle, diag, symbols: dirs, strings, main_tid, base }
    }

    /// What is looked at, for scans of its bytes.
    pub fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// The core file that it was read from, if it was one.
    pub fn core(&self) -> Option<&Core> {
        let target: &dyn Any = self.target();
        target.downcast_ref()
    }

    /// All that is known of it but its bytes.
    pub fn facts(&self) -> &Facts {
        self.target.facts()
    }

    /// What of its memory was in RAM, where that is known.
    pub fn residence(&self) -> Option<&Residence> {
        self.facts().residence.as_deref()
    }

    /// Its mappings, and which of their bytes are there.
    pub fn space(&self) -> &AddressSpace {
        &self.facts().space
    }

    /// The record of what was read of it.
    pub fn reads(&self) -> &Reads {
        self.target.reads()
    }

    /// Machine it ran on.
    pub fn arch(&self) -> Arch {
        self.facts().arch
    }

    /// How it was captured.
    pub fn producer(&self) -> Producer {
        self.facts().producer
    }

    /// Its threads.
    pub fn threads(&self) -> &[Thread] {
        &self.facts().threads
    }

    /// Files that it has mapped.
    pub fn files(&self) -> &[FileMapping] {
        &self.space().files
    }

    /// A value of its auxiliary vector ([`at`]).
    pub fn auxv(&self, key: u64) -> Option<u64> {
        self.facts().auxv(key)
    }

    /// The mapping that holds `addr`.
    pub fn mapping_at(&self, addr: Addr) -> Option<&Mapping> {
        self.space().mapping_at(addr)
    }

    /// What is read from now on is for `phase` ([`Reads::enter`]).
    pub(crate) fn enter(&self, phase: Phase) -> InPhase<'_> {
        self.target.reads().enter(phase)
    }

    /// What is being done with it, in words for those who wait: `following references`. May be asked while another
    /// thread works.
    pub fn doing(&self) -> &'static str {
        self.target.reads().phase().doing()
    }

    /// Tell which phases could not read what the core's headers promise, and what
    /// the answer may lack for it. To be called when the answer is there.
    pub fn tell_unread(&self) {
        let budget = self.target.reads().budget();
        tracing::debug!(work = budget.work(), memory = budget::taken(), "spent");
        let spent = match budget.spent() {
            Some(Spent::Memory) => Some(format!(
                "this core asks for more than the {} of memory that the answer may take",
                round(budget.memory())
            )),
            Some(Spent::Work) => Some("this core asks for more work than its size can be worth".to_owned()),
            None => None,
        };
        if let Some(why) = spent {
            let more = "it may be damaged, or made so; --memory SIZE allows more";
            self.diag.partial("budget", format!("{why}, so the rest was left: {more}"));
        }
        for (phase, loss, at) in self.target.reads().losses() {
            let code = match loss {
                Loss::Failed => "read-failed",
                Loss::Cut => "read-cut",
                Loss::Spent => "budget",
            };
            let fault = Fault { addr: at, kind: loss.into() };
            self.diag.partial(code, format!("{}: {fault}; {}", phase.name(), phase.loses()));
        }
    }

    /// Every byte that is mapped, as the headers tell it.
    pub fn base(&self) -> &Base {
        self.base.get_or_init(|| Base::of(self.facts()))
    }

    /// Process id, where the core has it.
    pub fn pid(&self) -> Option<u32> {
        self.facts().process.as_ref().map(|p| p.pid).filter(|&p| p != 0)
    }

    /// The first thread: its tid is the pid. Where that is not known, the one thread
    /// whose stack pointer is in the mapping of the kernel's strings.
    pub fn main_tid(&self) -> Option<u32> {
        *self.main_tid.get_or_init(|| {
            let threads = self.threads();
            let Some(pid) = self.pid() else {
                let strings = [at::RANDOM, at::EXECFN].into_iter().find_map(|key| self.auxv(key))?;
                let whole = |addr| self.mapping_at(addr).map(|m| m.whole);
                let stack = whole(Addr::new(strings))?;
                let mut inside = threads.iter().filter(|t| whole(t.registers.sp()) == Some(stack));
                return inside.next().map(|t| t.tid).filter(|_| inside.next().is_none());
            };
            threads.iter().map(|t| t.tid).find(|&t| t == pid)
        })
    }

    /// A thread's name. Cores hold the main thread's only (NT_PRPSINFO).
    pub fn thread_name(&self, tid: u32) -> Option<String> {
        if let Some(name) = self.facts().thread_names.get(&tid) {
            return Some(bytes::printable(name).into_owned());
        }
        let info = self.facts().process.as_ref()?;
        (self.main_tid() == Some(tid) && !info.name.is_empty()).then(|| bytes::printable(&info.name).into_owned())
    }

    /// argv and envp as the kernel laid them on the main stack; `None` where
    /// that part of the stack is not in the core.
    pub fn strings(&self) -> Option<&ProcessStrings> {
        let find = || {
            let _phase = self.enter(Phase::Strings);
            find_strings(self.facts(), &self.memory)
        };
        self.strings.get_or_init(find).as_ref()
    }

    /// The value of an environment variable at the process's start.
    pub fn environment(&self, name: &str) -> Option<&str> {
        let strings = self.strings()?;
        strings.environment.iter().find_map(|e| e.split_once('=').filter(|(n, _)| *n == name).map(|(_, v)| v))
    }
}

/// The auxiliary vector lies on the main stack right above envp, which lies
/// right above argv and argc (System V ABI, process initialization).
fn find_strings(facts: &Facts, memory: &dyn Memory) -> Option<ProcessStrings> {
    let anchor = facts.auxv(at::RANDOM).or_else(|| facts.auxv(at::EXECFN))?;
    let anchor = Addr::new(anchor);
    // Strings and the random bytes lie above the vector.
    let low = anchor.saturating_sub(limits::MAX_ARG_BYTES as u64).align_down(PAGE);
    let piece = facts.space.pieces.at(anchor)?;
    let low = low.max(piece.range.start);
    let bytes = memory.bytes(low, anchor.since(low) as usize).ok()?;
    let needle: Vec<u8> =
        facts.auxv.iter().take(3).flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()]).flatten().collect();
    if needle.is_empty() {
        return None;
    }
    let vector = memchr::memmem::rfind(&bytes, &needle)?;
    let word = |at: usize| bytes::u64_at(&bytes, at);
    let mut at = vector.checked_sub(16)?;
    let mut environment = Vec::new();
    while let Some(pointer) = word(at).filter(|&p| p != 0) {
        environment.push(pointer);
        at = at.checked_sub(8)?;
        if environment.len() > limits::MAX_ARGS {
            return None;
        }
    }
    let mut args = Vec::new();
    at = at.checked_sub(8)?;
    // argc is the count of argv: the word below the pointers equals it.
    while let Some(value) = word(at) {
        if value == args.len() as u64 {
            break;
        }
        args.push(value);
        at = at.checked_sub(8)?;
        if args.len() > limits::MAX_ARGS {
            return None;
        }
    }
    let read = |pointers: Vec<u64>| {
        let mut left = limits::MAX_ARG_BYTES;
        pointers
            .into_iter()
            .rev()
            .map_while(|p| {
                let text = memory.text(Addr::new(p), limits::MAX_ARG_BYTES.min(128 << 10)).ok()?;
                left = left.checked_sub(text.len())?;
                Some(text)
            })
            .collect()
    };
    Some(ProcessStrings { args: read(args), environment: read(environment) })
}

//! An opened process: its target, memory, modules and diagnostics. All introspectors and analyses take it as an
//! argument.

use std::any::Any;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::addr::{Addr, PAGE};
use crate::bytes;
use crate::core::mapped;
use crate::core::open::Core;
use crate::diag::{Diagnostics, Warning, WarningCode};
use crate::image::bundle::Bundle;
use crate::image::identity;
use crate::image::symbol_dirs::SymbolDirs;
use crate::image::{bundle, elf, modules, unfiled};
use crate::limits;
#[cfg(target_os = "linux")]
use crate::live::{self, AttachOptions, Live};
use crate::machine;
use crate::map::Base;
use crate::memory::{Fault, Memory, ProcessMemory};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::resident::saved;
use crate::targets::budget::{Exhausted, UserLimits};
use crate::targets::reads::{InPhase, Loss};
use crate::targets::{
    AddressSpace, Arch, Facts, FileLoss, FileMapping, Mapping, Producer, Reads, Residence, StopReport, Target, Thread,
    at,
};
use crate::units::round;

pub use crate::core::elf::HeaderError;
pub use crate::core::inflate::InflateError;
pub use crate::core::open::OpenError;
pub use crate::image::Module;
pub use crate::image::Section;
#[cfg(target_os = "linux")]
pub use crate::live::LiveError;
pub use crate::resident::saved::SavedError;

/// Options for opening a process.
#[derive(Default)]
pub struct Options {
    /// `--symbols` directories.
    pub symbols: Vec<PathBuf>,
    /// /proc/PID/smaps of the process, saved when the core was written (`--smaps`).
    pub smaps: Option<PathBuf>,
    /// Limit on coremap's own memory in bytes (`--memory`), for decompression and for answers. `None`: a limit
    /// derived from the size of the core (`limits`).
    pub memory: Option<u64>,
    /// Whether this program does nothing but answer. Its memory use is then limited in proportion to the core.
    pub alone: bool,
    /// Installs a SIGBUS handler in this program (`mapped::handle_sigbus`). A core file may shrink while it
    /// is read, or its disk may fail. With the handler, unreadable bytes are zero and the answer is partial.
    /// Without it, such a read ends the program, because files are mapped. A full tmpfs under `$TMPDIR`, where
    /// compressed cores are unpacked, has the same effect.
    pub handle_sigbus: bool,
    /// Running process: read it without stopping it. What is read may be inconsistent, and registers are only
    /// available for threads that wait in the kernel.
    pub no_stop: bool,
    /// Running process: resume it after this time, even if reading is not finished.
    pub stop_at_most: Option<Duration>,
    /// Running process: it will be dumped. Data that a core stores besides memory is retained. The process's own files
    /// are not read for names, since a reader of the core may not have them.
    pub to_dump: bool,
    /// Records which pages are read ([`Process::reads`]).
    pub record: bool,
    /// Records which bytes are read.
    pub record_bytes: bool,
    /// Makes one read fail, counted from 1. For tests.
    #[doc(hidden)]
    pub fail_at: Option<u64>,
}

/// Why a process could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The core can't be opened.
    #[error(transparent)]
    Core(#[from] OpenError),
    /// The running process can't be read.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A `--symbols` directory can't be listed.
    #[error("--symbols {0}")]
    Symbols(std::io::Error),
    /// The file of `--smaps` can't be used.
    #[error("--smaps: {0}")]
    Smaps(#[from] SavedError),
}

/// Arguments and environment, read from the main stack.
#[derive(Clone, Debug, Default)]
pub struct ProcessStrings {
    /// The arguments (argv).
    pub args: Vec<String>,
    /// The environment (envp), each `NAME=value`.
    pub environment: Vec<String>,
}

/// A process: a core dump or a running process.
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
/// // A read returns the bytes, or the reason for the failure.
/// let mut text = [0; 7];
/// process.memory.read(Addr::new(0x557a_682b_6b10), &mut text)?;
/// assert_eq!(&text, b"coremap");
/// let fault = process.memory.read(Addr::new(0x1000), &mut text).unwrap_err();
/// assert_eq!(fault.kind, FaultKind::Unmapped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Process {
    target: Arc<dyn Target>,
    /// The memory. Bytes that the core lacks are filled in from `--symbols` files proven to be the same build.
    pub memory: ProcessMemory,
    /// Program files in memory, by address.
    pub modules: Vec<Module>,
    /// Files bundled into the program's file, if it is a .NET single-file program.
    pub(crate) bundle: Option<Bundle>,
    /// Warnings so far.
    pub diag: Diagnostics,
    /// `--symbols` directories, for the names of code.
    pub(crate) symbols: SymbolDirs,
    strings: OnceLock<Option<ProcessStrings>>,
    main_tid: OnceLock<Option<u32>>,
    initial_sp: OnceLock<Option<Addr>>,
    base: OnceLock<Base>,
    /// Codes and subjects of the warnings of [`Process::conclude`] so far.
    warned: Mutex<BTreeSet<(WarningCode, &'static str)>>,
}

impl Process {
    /// Opens the core at `path`, or on Linux a running process: `/proc/4711`, or `4711` if no file has
    /// that name. A running process is stopped until an answer is put into its
    /// `coremap::commands::envelope` or this value is dropped.
    ///
    /// # Errors
    /// [`ProcessError`], if the file is not a core, the process can't be read, or a `--symbols` directory
    /// can't be listed.
    ///
    /// ```no_run
    /// # use std::path::Path;
    /// # use std::time::Duration;
    /// # use coremap::commands;
    /// # use coremap::process::{Options, Process};
    /// # use coremap::progress::Progress;
    /// # use coremap::session::Session;
    /// // Resumes the process after 200 ms. If reading took longer, the answer has a warning.
    /// let options = Options { stop_at_most: Some(Duration::from_millis(200)), ..Options::default() };
    /// let process = Process::open(Path::new("/proc/4711"), &options, &Progress::silent())?;
    /// let session = Session::new(&process);
    /// let report = commands::summary(&session, false, &Progress::silent());
    /// let answer = commands::envelope("summary", &session, report);
    /// println!("{} bytes in {} kinds", answer.body.total.size, answer.body.kinds.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
        let allowed = UserLimits { memory: options.memory, alone: options.alone };
        #[cfg(target_os = "linux")]
        if let Some(pid) = live::named(path) {
            let attach =
                AttachOptions { no_stop: options.no_stop, max_stop: options.stop_at_most, to_dump: options.to_dump };
            if options.smaps.is_some() {
                diag.note(WarningCode::Smaps, "--smaps is ignored: it is for cores, and this is a running process");
            }
            let own = Live::open(pid, attach, reads, allowed, &diag)?;
            let names = if options.to_dump { SymbolDirs::default() } else { live_symbols(pid, options) };
            let mut process = Process::assemble(Arc::new(own), dirs, diag);
            process.symbols = names.with_losses_of(&process.symbols);
            return Ok(process);
        }
        let mut core = Core::open_with(path, reads, allowed, &diag, progress)?;
        if let Some(smaps) = &options.smaps {
            core.facts.residence = Some(Arc::new(saved::read(smaps, &core.facts, &diag)?));
        }
        Ok(Process::assemble(Arc::new(core), dirs, diag))
    }

    /// Wraps a target that was opened by other means than [`Process::open`].
    pub fn of(target: Arc<dyn Target>) -> Process {
        Process::assemble(target, SymbolDirs::default(), Diagnostics::default())
    }

    fn assemble(target: Arc<dyn Target>, dirs: SymbolDirs, diag: Diagnostics) -> Process {
        let mut memory = ProcessMemory::new(target.clone());
        let phase = target.reads().enter(Phase::Modules);
        let mut found = modules::find(&*target, &memory, &diag);
        let starts = unfiled::starts(&*target);
        let mut bundle = bundle::find(&*target, &memory, &found, &starts);
        if !dirs.is_empty() {
            let proving = target.reads().enter(Phase::Proof);
            let proven = identity::prove(&*target, &found, &dirs, &diag);
            let image_only = bundle::prove(&*target, &found, &mut bundle, &proven, &diag);
            let (overlays, originals) = identity::overlays(&*target, &found, &proven, image_only);
            drop(proving);
            // Section tables are in the files only, never in memory.
            let tables: Vec<_> = proven
                .iter()
                .filter_map(|p| {
                    let module = &found[p.module];
                    let bias = identity::load_bias(&*target, module, &p.map)?;
                    Some((module.range.start, elf::file_sections(&p.map, bias)?))
                })
                .collect();
            let files = proven.into_iter().map(|p| p.map).collect();
            memory = ProcessMemory::with_files(target.clone(), overlays, originals, files);
            // The files may have headers that the core lacks, so find the modules again.
            found = modules::find(&*target, &memory, &diag);
            for (start, sections) in tables {
                for module in found.iter_mut().filter(|m| m.range.start == start) {
                    module.sections.extend(sections.iter().cloned());
                }
            }
        }
        if let Some(bundle) = &bundle {
            bundle::add_modules(&*target, &memory, bundle, &mut found);
        }
        unfiled::add_modules(&starts, &memory, bundle.as_ref(), &mut found);
        drop(phase);
        let (strings, main_tid, initial_sp, base, warned) = Default::default();
        let modules = found;
        Process { target, memory, modules, bundle, diag, symbols: dirs, strings, main_tid, initial_sp, base, warned }
    }

    /// The target, for scans of its bytes.
    pub fn target(&self) -> &dyn Target {
        &*self.target
    }

    /// The core file, if the process was read from one.
    #[doc(hidden)]
    pub fn core(&self) -> Option<&Core> {
        let target: &dyn Any = self.target();
        target.downcast_ref()
    }

    /// Everything about the process except its bytes.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use coremap::process::{Options, Process};
    /// # use coremap::progress::Progress;
    /// let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
    /// let process = Process::open(core, &Options::default(), &Progress::silent())?;
    /// let facts = process.facts();
    /// println!("{} on {:?}, written by {:?}", facts.path, facts.arch, facts.producer);
    /// assert!(facts.truncation.is_none() && !facts.threads.is_empty());
    /// for mapping in &facts.space.mappings {
    ///     println!("{}", mapping.range);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn facts(&self) -> &Facts {
        self.target.facts()
    }

    /// Resident memory, if the target has this information.
    pub fn residence(&self) -> Option<&Residence> {
        self.facts().residence.as_deref()
    }

    /// The mappings, and which of their bytes are available.
    pub fn space(&self) -> &AddressSpace {
        &self.facts().space
    }

    /// The record of all reads.
    pub fn reads(&self) -> &Reads {
        self.target.reads()
    }

    /// The machine type.
    pub fn arch(&self) -> Arch {
        self.facts().arch
    }

    /// Which program wrote the core, or how the process was read.
    pub fn producer(&self) -> Producer {
        self.facts().producer
    }

    /// The threads.
    pub fn threads(&self) -> &[Thread] {
        &self.facts().threads
    }

    /// The file mappings.
    pub fn files(&self) -> &[FileMapping] {
        &self.space().files
    }

    /// A value of the auxiliary vector; the keys are in [`at`].
    pub fn auxv(&self, key: u64) -> Option<u64> {
        self.facts().auxv(key)
    }

    /// The mapping that contains `addr`.
    pub fn mapping_at(&self, addr: Addr) -> Option<&Mapping> {
        self.space().mapping_at(addr)
    }

    /// Attributes all following reads to `phase` ([`Reads::enter`]).
    #[doc(hidden)]
    pub fn enter(&self, phase: Phase) -> InPhase<'_> {
        self.target.reads().enter(phase)
    }

    /// Begins another question to an open process. The budget of work is new, and warnings that the last answer excused
    /// count again. Warnings stay, because their causes remain.
    #[doc(hidden)]
    pub fn begin_question(&self) {
        self.diag.excuse_nothing();
        self.target.reads().budget().renew();
    }

    /// Whether the budget of work or memory is spent. What was read since then is incomplete, and stays so.
    #[doc(hidden)]
    pub fn is_spent(&self) -> bool {
        self.target.reads().budget().spent().is_some()
    }

    /// The current activity, for progress displays, such as `following references`. Can be called while another
    /// thread works.
    pub fn doing(&self) -> &'static str {
        self.target.reads().phase().doing()
    }

    /// Ends an answer: a stopped process resumes, and [`Process::diag`] gets a warning for everything that the
    /// answer may lack because it could not be read. Call it when the answer is computed. It can be called again
    /// when more was read; nothing is warned about twice. Returns how the reading went, for a running process.
    pub fn conclude(&self) -> Option<StopReport> {
        let stop = self.target.finish();
        let budget = self.target.reads().budget();
        tracing::debug!(work = budget.work(), memory = machine::used_memory(), "spent");
        for (whose, loss) in self.file_losses() {
            let (code, message) = match loss {
                FileLoss::Shrank => {
                    let what = "became shorter while it was read: the missing bytes are read as zero";
                    (WarningCode::Shrank, format!("{whose} {what}"))
                }
                FileLoss::Unreadable => {
                    let what = "could not be read (I/O error): it is read as zero";
                    (WarningCode::IoError, format!("some of {whose} {what}"))
                }
            };
            self.warn_once(whose, Warning::partial(code, message));
        }
        if let Some(stop) = &stop {
            self.warn_of_stop(stop);
        }
        self.warn_of_unread();
        stop
    }

    /// Losses of the files that were read, with the name of the file in words.
    fn file_losses(&self) -> impl Iterator<Item = (&'static str, FileLoss)> {
        let core = self.target.file_losses().into_iter().map(|loss| ("the core file", loss));
        core.chain(self.symbols.losses().all().into_iter().map(|loss| ("a program file", loss)))
    }

    /// Adds a warning, unless there was one with its code about this subject.
    fn warn_once(&self, subject: &'static str, warning: Warning) {
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert((warning.code, subject)) {
            self.diag.add(warning);
        }
    }

    /// Warns if the way in which a running process was read affects the answer.
    fn warn_of_stop(&self, stop: &StopReport) {
        if stop.lost {
            let message =
                "some memory of the process could not be read and is read as zero: the process ended or unmapped it";
            self.warn_once("", Warning::partial(WarningCode::Gone, message));
        }
        if stop.timed_out {
            let message = "the process was resumed before all was read (--stop-at-most): data read after that may be inconsistent";
            self.warn_once("", Warning::partial(WarningCode::RanOn, message));
        }
        if stop.never_stopped {
            let message = "read while the process ran (--no-stop): data may be inconsistent, and running threads have no registers";
            self.warn_once("", Warning::note(WarningCode::NotStopped, message));
        }
    }

    /// Warns about each phase with failed reads, and what the answer may lack because of them.
    fn warn_of_unread(&self) {
        let budget = self.target.reads().budget();
        let spent = match budget.spent() {
            Some(Exhausted::Memory) => Some(format!(
                "reading this core needs more than the {} of memory that coremap may use",
                round(budget.memory())
            )),
            Some(Exhausted::Work) => Some("reading this core needs more work than its size justifies".to_owned()),
            None => None,
        };
        if let Some(why) = spent {
            let more = "The core may be damaged or crafted; --memory SIZE raises the limit";
            let message = format!("{why}, so the answer is incomplete. {more}");
            self.warn_once("", Warning::partial(WarningCode::Budget, message));
        }
        for (phase, loss, at) in self.target.reads().losses() {
            let code = match loss {
                Loss::Failed => WarningCode::ReadFailed,
                Loss::Cut => WarningCode::ReadCut,
                Loss::Spent => WarningCode::Budget,
            };
            let fault = Fault { addr: at, kind: loss.into() };
            let message = format!("{}: {fault}; {}", phase.name(), phase.loses());
            self.warn_once(phase.name(), Warning::partial(code, message));
        }
    }

    /// All mapped bytes, as the headers describe them.
    pub fn base(&self) -> &Base {
        self.base.get_or_init(|| Base::of(self.facts()))
    }

    /// The process ID, if the core has it.
    pub fn pid(&self) -> Option<u32> {
        self.facts().process.as_ref().map(|p| p.pid).filter(|&p| p != 0)
    }

    /// The thread ID of the first thread. It equals the process ID. If the process ID is missing, or no thread has it,
    /// this is the only thread whose stack pointer is in the mapping with the kernel's strings.
    pub fn main_tid(&self) -> Option<u32> {
        *self.main_tid.get_or_init(|| {
            let threads = self.threads();
            let by_id = self.pid().and_then(|pid| threads.iter().map(|t| t.tid).find(|&t| t == pid));
            by_id.or_else(|| {
                let strings = [at::RANDOM, at::EXECFN].into_iter().find_map(|key| self.auxv(key))?;
                let whole = |addr| self.mapping_at(addr).map(|m| m.whole);
                let stack = whole(Addr::new(strings))?;
                let mut inside = threads.iter().filter(|t| whole(t.registers.sp()) == Some(stack));
                inside.next().map(|t| t.tid).filter(|_| inside.next().is_none())
            })
        })
    }

    /// A thread's name. Most cores contain only the main thread's (NT_PRPSINFO).
    pub fn thread_name(&self, tid: u32) -> Option<String> {
        if let Some(name) = self.facts().thread_names.get(&tid) {
            return Some(bytes::printable(name).into_owned());
        }
        let info = self.facts().process.as_ref()?;
        (self.main_tid() == Some(tid) && !info.name.is_empty()).then(|| bytes::printable(&info.name).into_owned())
    }

    /// argv and envp as the kernel put them on the main stack. `None` if that range of the stack is not in the
    /// core.
    pub fn strings(&self) -> Option<&ProcessStrings> {
        let find = || {
            let _phase = self.enter(Phase::Strings);
            find_strings(self.facts(), &self.memory)
        };
        self.strings.get_or_init(find).as_ref()
    }

    /// The stack pointer with which the first thread began: the address of argc. `None` if it is not in the core.
    pub(crate) fn initial_sp(&self) -> Option<Addr> {
        *self.initial_sp.get_or_init(|| find_argc(self.facts(), &self.memory))
    }

    /// The value of an environment variable when the process started.
    pub fn environment(&self, name: &str) -> Option<&str> {
        let strings = self.strings()?;
        strings.environment.iter().find_map(|e| e.split_once('=').filter(|(n, _)| *n == name).map(|(_, v)| v))
    }
}

/// Returns folders with files for names: the user's, and the process's own files as the process sees them, even in
/// another container.
#[cfg(target_os = "linux")]
fn live_symbols(pid: u32, options: &Options) -> SymbolDirs {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let all: Vec<PathBuf> = options.symbols.iter().cloned().chain([root]).collect();
    // The process's root may be inaccessible.
    let dirs = SymbolDirs::open(&all).or_else(|_| SymbolDirs::open(&options.symbols));
    dirs.unwrap_or_default()
}

/// What the kernel put on the main stack.
struct InitialStack<B> {
    /// The bytes.
    bytes: B,
    /// Address of the first of them.
    low: Addr,
    /// Index of the auxiliary vector. It is directly above envp, which is directly above argv and argc (System V ABI,
    /// process initialization).
    vector: usize,
}

fn initial_stack<B: AsRef<[u8]>>(
    facts: &Facts,
    read: impl FnOnce(Addr, usize) -> Option<B>,
) -> Option<InitialStack<B>> {
    let anchor = facts.auxv(at::RANDOM).or_else(|| facts.auxv(at::EXECFN))?;
    let anchor = Addr::new(anchor);
    // Strings and the random bytes are above the vector.
    let low = anchor.saturating_sub(limits::MAX_ARG_BYTES as u64).align_down(PAGE);
    let piece = facts.space.pieces.at(anchor)?;
    let low = low.max(piece.range.start);
    let bytes = read(low, anchor.since(low) as usize)?;
    let needle: Vec<u8> =
        facts.auxv.iter().take(3).flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()]).flatten().collect();
    if needle.is_empty() {
        return None;
    }
    let vector = memchr::memmem::rfind(bytes.as_ref(), &needle)?;
    Some(InitialStack { bytes, low, vector })
}

/// Finds the address of argc. `read` reads memory.
fn find_argc(facts: &Facts, memory: &dyn Memory) -> Option<Addr> {
    let stack = initial_stack(facts, |low, len| memory.look(low, len).ok())?;
    let word = |at: usize| bytes::u64_at(stack.bytes.as_ref(), at);
    // Two lists of pointers, each with a null at its end, below the vector.
    let down = |from: usize| (0..limits::MAX_ARGS).map_while(move |i| from.checked_sub(8 * i));
    let null = down(stack.vector.checked_sub(16)?).find(|at| word(*at) == Some(0))?;
    let (argc, _) = down(null.checked_sub(8)?).zip(0..).find(|(at, count)| word(*at) == Some(*count))?;
    stack.low.checked_add(argc as u64)
}

/// Finds argv and envp.
fn find_strings(facts: &Facts, memory: &dyn Memory) -> Option<ProcessStrings> {
    let InitialStack { bytes, vector, .. } = initial_stack(facts, |low, len| memory.bytes(low, len).ok())?;
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
    // argc is the word below the pointers, and equals their number.
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

//! coremap shows where a process's memory went, from its core dump or the running process.
//!
//! A core file is an address space. Every byte of it gets exactly one label and the evidence for it, so
//! nothing counts twice.
//!
//! # From a core to an answer
//!
//! Open a [`Process`](process::Process) and create a [`Session`](session::Session) for it. The session
//! reads what an analysis needs, once, and shares it with later ones.
//!
//! ```
//! use std::path::Path;
//!
//! use coremap::commands;
//! use coremap::process::{Options, Process};
//! use coremap::progress::Progress;
//! use coremap::session::Session;
//!
//! let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let report = commands::summary(&session, false, &Progress::silent());
//! for kind in &report.kinds {
//!     println!("{:20} {:>14}", kind.kind, kind.size);
//! }
//! // Every byte is counted once: the kinds add up to what the file's headers say.
//! assert_eq!(report.total.size, report.base.size);
//! // Whatever could not be read or understood is reported as a warning, never guessed.
//! assert!(process.diag.warnings().is_empty());
//!
//! // The map itself: which memory does a thread's stack pointer point to?
//! let thread = &process.threads()[0];
//! let region = session.map().region_at(thread.registers.sp()).expect("every mapped byte has a label");
//! assert_eq!(region.kind.name(), "Stack");
//!
//! // The JSON that the program prints with `--json`.
//! let answer = commands::envelope("summary", &session, report);
//! let mut text = Vec::new();
//! coremap::render::json(&answer, &mut text)?;
//! let read: serde_json::Value = serde_json::from_slice(&text)?;
//! assert_eq!(read["core"]["pid"], 9854);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Objects of a managed runtime
//!
//! [`Session::runtimes`](session::Session::runtimes) returns all managed runtimes of the process behind one
//! interface ([`runtimes::api::ManagedRuntime`]): .NET, NativeAOT, Java and Python.
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::runtimes::api::{Selection, stat};
//!
//! let core = Path::new("testdata/cores/dotnet8-objects/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! for runtime in session.runtimes() {
//!     println!("{}: {} threads", runtime.label(), runtime.threads().by_tid.len());
//!     let Some(heap) = runtime.heap() else { continue };
//!     let sums = stat(heap, &Selection::default(), &Progress::silent());
//!     for biggest in sums.types.iter().take(3) {
//!         println!("{:>10} {}", biggest.total.size, heap.type_name(biggest.kind));
//!     }
//!     assert!(sums.types.iter().any(|t| heap.type_name(t.kind) == "System.String"));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! Data flows one way:
//!
//! ```text
//! core file -> Core, a Target (facts, bytes) -> Process (memory, modules)
//!           -> Session: introspectors make Claims -> AddressMap (resolved); runtimes
//!           -> a command's analysis -> its report (plain data) -> table, JSON, CSV
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`session`] | everything read of a process so far: start here |
//! | [`commands`] | every command: its function, its report, its table, its JSON schema |
//! | [`report`] | the common head of all answers, and rows that several of them share |
//! | [`render`] | writers for reports: tables, JSON and CSV |
//! | [`process`] | opening a process; its memory, modules and warnings |
//! | [`map`] | kinds, claims, and the label of each byte |
//! | [`stacks`] | thread stacks, and their native and managed frames |
//! | [`runtimes`] | what a managed runtime answers: heaps, objects, threads, code; [`runtimes::graph`]: paths and retained sizes |
//! | [`targets`] | targets: facts and bytes of a core or a running process |
//! | [`memory`] | reads that return bytes or the reason for a failure |
//! | [`addr`], [`diag`], [`progress`] | addresses; warnings; progress of long answers |
//!
//! Functions and types that write files are in the module of their command: [`commands::dump`], [`commands::shrink`],
//! [`commands::record`], [`commands::export()`].
//!
//! All other modules (ELF and PE files, core files, structures of the runtimes, malloc of the C library) are
//! internal and change with every supported runtime. docs/design.md describes them.
//!
//! Core files are mapped into memory. If a core file shrinks while it is read, the program ends, unless
//! [`process::Options::handle_sigbus`] is set.
//!
//! The `coremap` program and its own dependencies (arguments, progress bar, log) are in the feature `cli`.
//! It is on by default; turn it off with `default-features = false`.

#![cfg_attr(feature = "internals", allow(unnameable_types))]
#![cfg_attr(not(feature = "internals"), allow(unreachable_pub))]

/// Modules that are no part of the library's interface. The feature `internals` makes them public for coremap's own
/// tests and benchmarks. Without it rustc reports what is unused in them.
///
/// The macro's name and form are those of the crate cfg-if: rustfmt looks for modules in no other macro.
macro_rules! cfg_if {
    (if #[$on:meta] { $($public:item)* } else { $($private:item)* }) => {
        $(#[$on] #[doc(hidden)] $public)*
        $(#[cfg(not(feature = "internals"))] $private)*
    };
}

pub mod addr;
pub(crate) mod analysis;
mod causes;
pub mod commands;
pub mod diag;
mod facts;
mod host;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod introspect;
mod machine;
pub mod map;
pub mod memory;
pub(crate) mod phase;
pub mod process;
#[doc(hidden)]
pub mod program;
pub mod progress;
pub mod render;
pub mod report;
pub mod runtimes;
pub mod session;
pub mod stacks;
pub(crate) mod sums;
pub mod targets;
mod words;

cfg_if! {
    if #[cfg(feature = "internals")] {
        pub mod bytes;
        pub mod core;
        pub mod dump;
        pub mod export;
        pub mod image;
        pub mod layout;
        pub mod limits;
        #[cfg(target_os = "linux")]
        pub mod live;
        pub mod native;
        pub mod range_map;
        pub mod registers;
        pub mod resident;
        pub mod scrub;
        pub mod search;
        pub mod series;
        pub mod shell;
        pub mod shrink;
        pub mod stackwalk;
        pub mod symbolicate;
        pub mod units;
    } else {
        mod bytes;
        mod core;
        mod dump;
        mod export;
        mod image;
        mod layout;
        mod limits;
        #[cfg(target_os = "linux")]
        mod live;
        mod native;
        mod range_map;
        mod registers;
        mod resident;
        mod scrub;
        mod search;
        mod series;
        mod shell;
        mod shrink;
        mod stackwalk;
        mod symbolicate;
        mod units;
    }
}

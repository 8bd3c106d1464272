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

#[doc(inline)]
pub use coremap_read::{
    addr, diag, map, memory, process, progress, render, report, runtimes, session, stacks, targets,
};

#[doc(hidden)]
pub use coremap_read::program;

mod causes;
pub mod commands;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;

/// Modules that are no part of the library's interface. The feature `internals` makes them public for coremap's own
/// tests and benchmarks.
#[cfg(feature = "internals")]
mod internal_modules {
    #[cfg(target_os = "linux")]
    pub use coremap_read::live;
    pub use coremap_read::{
        bytes, core, dump, export, image, layout, limits, native, range_map, registers, resident, search, series,
        shell, stackwalk, symbolicate, units,
    };
}
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use internal_modules::*;

#[cfg(not(feature = "internals"))]
pub(crate) use coremap_read::{
    bytes, core, dump, export, image, limits, native, resident, search, series, shell, symbolicate, units,
};

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod scrub;
#[cfg(not(feature = "internals"))]
mod scrub;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod shrink;
#[cfg(not(feature = "internals"))]
mod shrink;

pub(crate) use coremap_read::{analysis, machine, phase, sums, words};

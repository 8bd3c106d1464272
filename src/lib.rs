//! coremap tells where the memory of a process went, from its core dump alone.
//!
//! A core file is an address space. Every byte of it gets exactly one label,
//! with how it is known, and nothing counts twice.
//!
//! # From a file to an answer
//!
//! Open a process, ask a [`Session`](session::Session) about it. The session reads what a question
//! needs, once, and lends it to the next question.
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
//! // Every byte is counted once: the kinds are as much as the file's headers say.
//! assert_eq!(report.total.size, report.base.size);
//! // What could not be read or understood is told, not guessed.
//! assert!(process.diag.warnings().is_empty());
//!
//! // The map itself: what is the memory that a thread's stack pointer leads to?
//! let thread = &process.threads()[0];
//! let region = session.map().region_at(thread.registers.sp()).expect("every mapped byte has a label");
//! assert_eq!(region.kind.name(), "Stack");
//!
//! // The same as the program prints it with `--json`.
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
//! [`Session::runtimes`](session::Session::runtimes) gives them, whatever they are
//! ([`managed::ManagedRuntime`]).
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::managed::{Selection, stat};
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
//! # Rooms
//!
//! Data flows one way:
//!
//! ```text
//! core file -> Core, a Target (facts, bytes) -> Process (memory, modules)
//!           -> Session: introspectors make Claims -> AddressMap (resolved); runtimes
//!           -> a command's analysis -> its report (plain data) -> its table, json, csv
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`session`] | what was read of a process: start here |
//! | [`commands`] | every command: the function that answers, its report, its table, the schema |
//! | [`report`] | what every answer begins with, and the rows that several of them have |
//! | [`render`] | how reports are written: tables, JSON and CSV |
//! | [`process`] | opening; memory, modules and what went wrong so far |
//! | [`map`] | kinds, claims, and the one label for each byte |
//! | [`managed`] | what is asked of a managed runtime, whatever it is |
//! | [`search`] | text, patterns and bytes in the dumped memory |
//! | [`symbolicate`] | texts of tracing tools, with their addresses named |
//! | [`series`] | rows of looks at a process: the file they are kept in, and what grows in them |
//! | [`shrink`] | a smaller core that still answers |
//! | [`dump`] | a core of a process that runs |
//! | [`targets`] | what is looked at, whatever it came from: facts and bytes |
//! | [`memory`] | reads that give bytes or the reason why not; page scans |
//! | [`layout`] | struct layouts as data |
//!
//! What these are built on (ELF and PE files in memory, core files, CoreCLR's structures, stacks and malloc of
//! the C library) is not for users of the library: it changes with every runtime that is added. Its modules can be
//! reached, since tests and benches of coremap ask them, but are in no documentation and promise nothing;
//! docs/design.md tells of them.
//!
//! Core files are mapped: one that becomes shorter while it is read ends the program, unless
//! [`process::Options::handle_sigbus`] is set.
//!
//! The program `coremap` and what it alone needs (arguments, progress bar, log) come with the feature
//! `cli`, which is on unless one says `default-features = false`.

pub mod addr;
pub(crate) mod analysis;
#[doc(hidden)]
pub mod bytes;
pub mod commands;
#[doc(hidden)]
pub mod core;
#[doc(hidden)]
pub mod cpython;
pub mod diag;
#[doc(hidden)]
pub mod dotnet;
pub mod dump;
pub mod export;
#[doc(hidden)]
mod host;
pub mod hotspot;
#[doc(hidden)]
pub mod image;
mod introspect;
pub mod layout;
#[doc(hidden)]
pub mod limits;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod live;
pub mod managed;
pub mod map;
pub mod memory;
#[doc(hidden)]
pub mod native;
#[doc(hidden)]
pub mod nativeaot;
pub(crate) mod phase;
pub mod process;
pub mod progress;
#[doc(hidden)]
pub mod range_map;
pub mod registers;
pub mod render;
pub mod report;
pub mod resident;
pub mod scrub;
pub mod search;
pub mod series;
pub mod session;
#[doc(hidden)]
pub mod shell;
pub mod shrink;
#[doc(hidden)]
pub mod stackwalk;
pub mod symbolicate;
pub mod targets;
#[doc(hidden)]
pub mod units;
mod words;

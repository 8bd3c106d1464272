//! coremap tells where the memory of a process went, from its core dump alone.
//!
//! A core file is an address space. Every byte of it gets exactly one label,
//! with how it is known, and nothing counts twice. Data flows one way:
//!
//! ```text
//! core file -> Core, a Target (facts, bytes) -> Process (memory, modules)
//!           -> introspectors make Claims -> AddressMap (resolved)
//!           -> analyses -> report (plain data) -> render (table, json, csv)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | what is looked at, whatever it came from: facts and bytes |
//! | [`core`] | a core file as a target: opening, ELF headers, notes, producers |
//! | [`memory`] | reads that give bytes or the reason why not; page scans |
//! | [`map`] | kinds, claims, and the one label for each byte |
//! | [`image`] | ELF and PE files as they lie in memory |
//! | [`layout`] | struct layouts as data |
//! | [`dotnet`] | CoreCLR's own structures: GC, loader heaps, code heaps |
//! | [`native`] | thread stacks and malloc heaps of the C library |
//! | [`stackwalk`] | stacks of threads, native and managed frames in one |
//! | [`introspect`] | who claims memory, and the map that follows |
//! | [`analysis`] | answers to the commands, as plain data |
//! | [`shrink`] | a smaller core that still answers |
//! | [`symbolicate`] | texts of tracing tools, with their addresses named |
//! | [`search`] | text, patterns and bytes in the dumped memory |
//! | [`report`] | the structs those answers are made of: the JSON contract |
//! | [`render`] | reports as tables, JSON and CSV |
//!
//! Core files are mapped: one that becomes shorter while it is read ends the program, unless
//! [`process::Options::handle_sigbus`] is set.
//!
//! From a file to an answer:
//!
//! ```
//! use std::path::Path;
//!
//! use coremap::analysis;
//! use coremap::introspect::introspect;
//! use coremap::process::{Options, Process};
//! use coremap::progress::Progress;
//!
//! let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let found = introspect(&process);
//! let report = analysis::summary(&process, &found, false, &Progress::silent());
//! for kind in &report.kinds {
//!     println!("{:20} {:>14}", kind.kind, kind.size);
//! }
//! // Every byte is counted once: the kinds are as much as the file's headers say.
//! assert_eq!(report.total.size, report.base.size);
//! // What could not be read or understood is told, not guessed.
//! assert!(process.diag.warnings().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same as the program prints it with `--json`:
//!
//! ```
//! # use std::path::Path;
//! # use coremap::{analysis, introspect::introspect, render};
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
//! # let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! # let found = introspect(&process);
//! # let report = analysis::summary(&process, &found, false, &Progress::silent());
//! let answer = analysis::envelope("summary", &process, &found, report);
//! let mut text = Vec::new();
//! render::json(&answer, &mut text)?;
//! let read: serde_json::Value = serde_json::from_slice(&text)?;
//! assert_eq!(read["core"]["pid"], 9854);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod addr;
pub mod analysis;
pub mod bytes;
pub mod commands;
pub mod core;
pub mod diag;
pub mod dotnet;
pub mod image;
mod introspect;
pub mod layout;
pub mod limits;
pub mod managed;
pub mod map;
pub mod memory;
pub mod native;
pub(crate) mod phase;
pub mod process;
pub mod progress;
pub mod range_map;
pub mod registers;
pub mod render;
pub mod report;
pub mod search;
pub mod session;
pub mod shrink;
pub mod stackwalk;
pub mod symbolicate;
pub mod targets;
pub mod units;

//! The commands, one folder each: description, report, analysis and table.
//!
//! This module re-exports the functions that make the reports, with their options. The reports are in the modules of
//! their commands. [`COMMANDS`] has a row for each command, with what help, schema, CSV and tests need to know without
//! running it. The program has its own table of commands in the same order.
//!
//! A report is plain data. [`envelope()`] adds the header that all JSON answers have, with the warnings:
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::{commands, render};
//!
//! let core = Path::new("testdata/cores/dotnet8-objects/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let report = commands::heapstat(&session, &commands::HeapStatOptions::default(), &Progress::silent());
//! let biggest = &report.types[0];
//! assert!(biggest.size > 0 && biggest.count > 0);
//!
//! let answer = commands::envelope("heapstat", &session, report);
//! let mut text = Vec::new();
//! render::json(&answer, &mut text)?;
//! let json: serde_json::Value = serde_json::from_slice(&text)?;
//! assert_eq!(json["command"], "heapstat");
//! assert!(json["types"][0]["size"].as_u64() > Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod allocations;
pub mod anon;
pub mod check;
pub mod collections;
mod command;
pub mod conditions;
pub mod diff;
pub mod dotnet;
pub mod dump;
mod envelope;
pub mod export;
pub mod gcroot;
pub mod heapstat;
pub mod holders;
pub mod info;
pub mod ip2method;
pub mod leaks;
pub mod maddress;
pub mod malloc;
pub mod object;
pub mod objects;
pub mod perfmap;
mod purpose;
pub mod record;
pub mod refs;
pub mod regions;
mod registry;
pub mod report;
pub mod requests;
pub mod retained;
pub mod scan_secrets;
pub mod schema;
pub mod search;
pub mod shrink;
pub mod stackobjects;
pub mod stacks;
pub mod summary;
pub mod symbolicate;
pub mod threadpool;
pub mod threads;
pub mod timers;
pub mod trend;
pub mod triage;
pub mod whatis;
pub mod why;

pub use allocations::allocations;
pub use anon::anon;
pub use check::check;
pub use collections::collections;
pub use command::{Command, Group, Subject};
pub use conditions::{Condition, ConditionError, Scope, judge_diff, judge_findings, judge_summary};
pub use diff::{Baseline, BaselineError, DiffInput, diff, moment_of, side};
pub use dotnet::async_chains::async_chains;
pub use dotnet::exceptions::exceptions;
pub use dotnet::finalizers::finalizers;
pub use dotnet::handles::{HandleOptions, handles};
pub use dotnet::heap::heap;
pub use dotnet::syncblocks::syncblocks;
pub use envelope::envelope;
pub use export::{ExportOptions, export};
pub use gcroot::{gcroot, gcroot_types};
pub use heapstat::{HeapStatOptions, heapstat};
pub use holders::{holders, holders_of_blocks};
pub use info::info;
pub use ip2method::ip2method;
pub use leaks::{LeaksOptions, leaks};
pub use malloc::{MallocOptions, malloc};
pub use object::object;
pub use objects::objects;
pub use perfmap::perfmap;
pub use purpose::Purpose;
pub use refs::{RefsOptions, TargetSpan, refs};
pub use regions::{RegionOptions, regions};
pub use registry::{COMMANDS, named};
pub use report::{Page, PageOptions, report, report_pair};
pub use requests::requests;
pub use retained::{RetainedOptions, retained};
pub use scan_secrets::scan_secrets;
pub use search::{SearchOptions, search};
pub use stackobjects::stackobjects;
pub use stacks::stacks;
pub use summary::summary;
pub use symbolicate::symbolicate;
pub use threadpool::threadpool;
pub use threads::{Doing, ThreadOptions, doing, threads};
pub use timers::timers;
pub use trend::trend;
pub use triage::{TriageOptions, triage};
pub use whatis::whatis;
pub use why::{why, why_types};

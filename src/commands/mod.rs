//! Every command, a folder each: what it is, its rows, the way from a session to its report, and its table.
//!
//! The functions that answer stand here too, with their options; the reports are in the modules of their commands.
//! [`COMMANDS`] has a row for each: what help, schema, CSV and tests need to know of it without running it. What the
//! program does with a command is in its own table, in the same order.

pub mod anon;
pub mod check;
mod command;
pub mod conditions;
pub mod diff;
pub mod dotnet;
pub mod dump;
mod envelope;
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
pub mod record;
pub mod refs;
pub mod regions;
mod registry;
pub mod report;
pub mod retained;
pub mod scan_secrets;
pub mod schema;
pub mod search;
pub mod shrink;
pub mod stacks;
pub mod summary;
pub mod symbolicate;
pub mod threads;
pub mod trend;
pub mod triage;
pub mod whatis;

pub use anon::anon;
pub use check::check;
pub use command::{Command, Group, Subject};
pub use conditions::{Condition, Scope, judge_diff, judge_findings, judge_summary};
pub use diff::{Baseline, BaselineError, DiffInput, diff, moment_of, side};
pub use dotnet::async_chains::async_chains;
pub use dotnet::exceptions::exceptions;
pub use dotnet::finalizers::finalizers;
pub use dotnet::handles::{HandleOptions, handles};
pub use dotnet::heap::heap;
pub use dotnet::syncblocks::syncblocks;
pub use envelope::envelope;
pub use gcroot::{gcroot, gcroot_types};
pub use heapstat::{HeapStatOptions, heapstat};
pub use holders::holders;
pub use info::info;
pub use ip2method::ip2method;
pub use leaks::{LeaksOptions, leaks};
pub use malloc::{MallocOptions, malloc};
pub use object::object;
pub use objects::objects;
pub use perfmap::perfmap;
pub use refs::{RefsOptions, Span, refs};
pub use regions::{RegionOptions, regions};
pub use registry::{COMMANDS, named};
pub use report::{Page, PageOptions, report, report_pair};
pub use retained::{RetainedOptions, retained};
pub use scan_secrets::scan_secrets;
pub use search::{SearchOptions, search};
pub use stacks::stacks;
pub use summary::summary;
pub use symbolicate::symbolicate;
pub use threads::{Doing, ThreadOptions, doing, threads};
pub use trend::trend;
pub use triage::{TriageOptions, triage};
pub use whatis::whatis;

//! Answers to the commands: pure functions from a process and its map to a
//! report. They know no terminal and no file format.

mod anon;
mod baseline;
mod check;
mod conditions;
mod crash;
mod diff;
mod distribution;
mod dotnet;
mod gcroot;
mod gcroot_types;
mod heap_notes;
mod heapstat;
mod holders;
mod info;
mod ip2method;
mod leaks;
mod malloc;
mod naming;
mod object;
mod objects;
mod perfmap;
mod place;
mod reach;
mod refs;
mod regions;
mod retained;
mod roots;
mod search;
mod stacks;
mod summary;
mod symbolicate;
mod threads;
mod whatis;
mod zero;

pub use anon::anon;
pub use baseline::{Baseline, BaselineError};
pub use check::check;
pub use conditions::{Condition, Scope, judge_diff, judge_summary};
pub use diff::{DiffInput, diff, side};
pub use dotnet::{async_chains, exceptions, finalizers, handles, heap, syncblocks};
pub use gcroot::gcroot;
pub use gcroot_types::gcroot_types;
pub use heapstat::{HeapStatOptions, heapstat};
pub use holders::holders;
pub use info::info;
pub use ip2method::ip2method;
pub use leaks::{LeaksOptions, leaks};
pub use malloc::{MallocOptions, malloc};
pub use naming::{Code, Names};
pub use object::object;
pub use objects::objects;
pub use perfmap::perfmap;
pub use refs::{RefsOptions, Span, refs};
pub use regions::{RegionOptions, regions};
pub use retained::{RetainedOptions, retained};
pub use search::{SearchOptions, search};
pub use stacks::stacks;
pub use summary::summary;
pub use symbolicate::symbolicate;
pub use threads::{Doing, ThreadOptions, doing, threads};
pub use whatis::whatis;

use crate::core::mapped::{self, Loss};
use crate::report::{CoreRow, Envelope, SCHEMA_VERSION};
use crate::session::Session;

/// Put a command's answer into the envelope all answers share.
pub fn envelope<T>(command: &'static str, session: &Session<'_>, body: T) -> Envelope<T> {
    for loss in mapped::losses() {
        let (code, message) = match loss {
            Loss::Shrank => {
                ("shrank", "the core file became shorter while it was read; the missing part was taken as zero")
            }
            Loss::Unreadable => (
                "io-error",
                "parts of the core file could not be read (an I/O error of its disk); they were taken as zero",
            ),
        };
        session.process.diag.partial(code, message);
    }
    session.process.tell_unread();
    let facts = session.process.facts();
    Envelope {
        schema_version: SCHEMA_VERSION,
        coremap: env!("CARGO_PKG_VERSION"),
        command,
        core: CoreRow {
            path: facts.path.clone(),
            size: facts.size,
            packed: facts.compression,
            producer: facts.producer,
            arch: facts.arch,
            pid: session.process.pid(),
            truncated: facts.truncation.is_some(),
            truncation: facts.truncation,
            threads: facts.threads.len(),
            runtimes: session.runtimes().iter().map(|runtime| runtime.row()).collect(),
        },
        warnings: session.process.diag.warnings(),
        body,
    }
}

//! Answers to the commands: pure functions from a process and its map to a
//! report. They know no terminal and no file format.

mod check;
mod diff;
mod distribution;
mod info;
mod place;
mod regions;
mod search;

mod stacks;
mod summary;
mod whatis;
mod zero;

pub use check::check;
pub use diff::diff;
pub use info::info;
pub use regions::{RegionOptions, regions};
pub use search::{SearchOptions, search};

pub use stacks::stacks;
pub use summary::summary;
pub use whatis::whatis;

use crate::core::mapped;
use crate::process::Process;
use crate::report::{CoreRow, Envelope, SCHEMA_VERSION};

/// Put a command's answer into the envelope all answers share.
pub fn envelope<T>(command: &'static str, process: &Process, body: T) -> Envelope<T> {
    if mapped::shrank() {
        process
            .diag
            .partial("shrank", "the core file became shorter while it was read; the missing part was taken as zero");
    }
    let core = &process.core;
    Envelope {
        schema_version: SCHEMA_VERSION,
        coremap: env!("CARGO_PKG_VERSION"),
        command,
        core: CoreRow {
            path: core.path.clone(),
            size: core.size,
            packed: core.packing.map(|p| p.name()),
            producer: core.producer.name(),
            arch: core.arch.name(),
            pid: process.pid(),
            truncated: core.truncation.is_some(),
            truncation: core.truncation,
            threads: core.notes.threads.len(),
            runtimes: Vec::new(),
        },
        warnings: process.diag.warnings(),
        body,
    }
}

//! `perfmap`: the jitted code, as perf reads it.

mod analysis;
mod report;
mod table;

pub use analysis::perfmap;
pub use report::*;
pub use table::perf_map;

use crate::commands::command::{Command, answer, of_runtime};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_runtime(
    "perfmap",
    &[answer::<PerfMapReport>],
    "Print a symbol map of JIT code; save it as /tmp/perf-PID.map for perf",
);

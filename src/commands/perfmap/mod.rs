//! `perfmap`: lists the jitted code in the format of perf.

mod analysis;
mod report;
mod table;

pub use analysis::perfmap;
pub use report::*;
pub use table::perf_map;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "perfmap",
    &[answer::<PerfMapReport>],
    "Print a symbol map of JIT code; save it as /tmp/perf-PID.map for perf",
);

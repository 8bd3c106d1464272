//! `threadpool`: pools of threads, with their limits, workers and queued work.

mod analysis;
mod report;
mod table;

pub use analysis::threadpool;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "threadpool",
    &[answer::<ThreadpoolReport>],
    "Show thread pools: limits, busy and idle workers, and queued work by method",
);

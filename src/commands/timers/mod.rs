//! `timers`: timers that are due, with the methods that they call.

mod analysis;
mod report;
mod table;

pub use analysis::timers;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "timers",
    &[answer::<TimersReport>],
    "List active timers by what they call or who waits for them, with due time and period",
);

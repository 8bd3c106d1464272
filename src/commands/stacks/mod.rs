//! `stacks`: shows the stacks of threads: their size, how much is in use, and how much was ever written.

mod analysis;
mod distribution;
mod report;
mod table;

pub use analysis::stacks;
pub(in crate::commands) use analysis::{measure, verdict};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "stacks",
    &[answer::<StacksReport>],
    "Show each thread's stack: reserved, guard, in use and high-water mark",
);

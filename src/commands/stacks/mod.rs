//! `stacks`: the stacks of threads: how large they are, how much of them is in use, and what was ever written.

mod analysis;
mod distribution;
mod report;
mod table;

pub use analysis::stacks;
pub(in crate::commands) use analysis::{measure, verdict};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "stacks",
    &[answer::<StacksReport>],
    "Show each thread's stack: reserved, guard, in use and high-water mark",
);

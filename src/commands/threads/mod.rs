//! `threads`: what every thread is doing: its frames, its names, what it is for and what it waits for.

mod analysis;
mod report;
mod table;
mod tree;

pub use analysis::{Doing, ThreadOptions, doing, threads};
pub use report::*;
pub use table::folded;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "threads",
    &[answer::<ThreadsReport>],
    "Show what every thread is doing, native and managed frames in one stack",
);

//! `threads`: shows the activity of every thread: its frames, names and role, and what it waits for.

mod analysis;
mod report;
mod table;
mod tree;

pub use analysis::{Doing, ThreadOptions, doing, threads};
pub use report::*;
pub use table::folded;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "threads",
    &[answer::<ThreadsReport>],
    "Show what every thread is doing, native and managed frames in one stack",
);

//! `leaks`: finds used malloc blocks that no pointer reaches.

mod analysis;
mod report;
mod table;

pub use analysis::{LeaksOptions, leaks};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("leaks", &[answer::<LeaksReport>], "Find malloc blocks that are in use but that no pointer reaches");

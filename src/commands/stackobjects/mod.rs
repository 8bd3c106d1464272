//! `stackobjects`: objects that frames, stack words and registers of threads refer to.

mod analysis;
mod report;
mod table;

pub use analysis::stackobjects;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "stackobjects",
    &[answer::<StackObjectsReport>],
    "List the objects that the stack of each thread refers to, with the method",
);

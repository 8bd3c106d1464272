//! `exceptions`: lists exception objects on the heap.

mod analysis;
mod report;
mod table;

pub use analysis::exceptions;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(in crate::commands) const COMMAND: Command =
    of_runtime("exceptions", &[answer::<ExceptionsReport>], "List .NET exception objects on the managed heap");

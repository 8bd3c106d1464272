//! `handles`: lists GC handles and the objects they refer to.

mod analysis;
mod report;
mod table;

pub use analysis::{HandleOptions, handles};
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(in crate::commands) const COMMAND: Command =
    of_runtime("handles", &[answer::<HandlesReport>], "List .NET GC handles and the objects they refer to");

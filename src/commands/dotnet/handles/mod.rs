//! `handles`: the GC handles, and the objects that they lead to.

mod analysis;
mod report;
mod table;

pub use analysis::{HandleOptions, handles};
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

/// Its row in the table of commands.
pub(in crate::commands) const COMMAND: Command =
    of_runtime("handles", &[answer::<HandlesReport>], "List .NET GC handles and the objects they refer to");

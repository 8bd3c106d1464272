//! `dump`: a core of a process that runs. What is written is made by `crate::dump`.

mod report;
mod table;

pub use report::*;

pub use crate::dump::{Dumped, Keep, Plan, for_debugger, write, write_packed};

use crate::commands::command::{Command, answer, of_live};

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_live("dump", &[answer::<DumpReport>], "Write a core of a running process, which continues afterwards");

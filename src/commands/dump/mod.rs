//! `dump`: reports the core that `crate::dump` wrote of a running process.

mod report;
mod table;

pub use report::*;

pub use crate::dump::{Dumped, Keep, Plan, for_debugger, write, write_packed};

use crate::commands::command::{Command, answer, of_live};

pub(super) const COMMAND: Command =
    of_live("dump", &[answer::<DumpReport>], "Write a core of a running process, which continues afterwards");

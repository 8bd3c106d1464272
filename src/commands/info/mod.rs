//! `info`: what process this was, on which system, which modules it had, and what the dump holds of it.

mod analysis;
mod report;
mod table;

pub use analysis::info;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_process("info", &[answer::<InfoReport>], "Show which process this was, its modules, and what the core contains");

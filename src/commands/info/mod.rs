//! `info`: the process, its system and modules, and what the dump contains.

mod analysis;
mod report;
mod table;

pub use analysis::info;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("info", &[answer::<InfoReport>], "Show which process this was, its modules, and what the core contains");

//! `triage`: what has the memory, most important first. Every byte that was written belongs to one
//! finding; what lies within such a one (a type that keeps much, blocks that are alike) is told beside it.

mod analysis;
mod report;
mod table;

pub(in crate::commands) use analysis::quick;
pub use analysis::{TriageOptions, triage};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_process("triage", &[answer::<TriageReport>], "Explain where the memory went, most important cause first");

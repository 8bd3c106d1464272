//! `triage`: explains where the memory went, most important cause first. Every byte that counts belongs to one finding.
//! Details within a finding, such as a type that retains much or equal blocks, are findings of their own that refer to
//! it.

mod analysis;
mod report;
mod table;

pub use crate::causes::ranking::{Family, RANKING};
pub(in crate::commands) use analysis::quick;
pub use analysis::{TriageOptions, triage};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("triage", &[answer::<TriageReport>], "Explain where the memory went, most important cause first");

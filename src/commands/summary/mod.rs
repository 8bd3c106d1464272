//! `summary`: shows where the memory went, by kind, and the most important findings.

mod analysis;
mod report;
mod resident;
mod rss_lines;
mod table;

pub use analysis::summary;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("summary", &[answer::<SummaryReport>], "Show memory by kind, sorted by bytes in the core");

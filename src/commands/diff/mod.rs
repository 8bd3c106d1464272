//! `diff`: two cores side by side, looks of recordings among them, or one core and the answer of another.

mod analysis;
mod baseline;
mod report;
mod table;

pub use analysis::{DiffInput, diff, moment_of, side};
pub use baseline::{Baseline, BaselineError};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process("diff", &[answer::<DiffReport>], "Compare two cores of one program");

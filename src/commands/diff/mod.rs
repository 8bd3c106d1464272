//! `diff`: compares two cores, samples of recordings, or a core with the earlier summary of another.

mod analysis;
mod baseline;
mod report;
mod table;

pub use analysis::{DiffInput, diff, moment_of, side};
pub use baseline::{Baseline, BaselineError};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process("diff", &[answer::<DiffReport>], "Compare two cores of one program");

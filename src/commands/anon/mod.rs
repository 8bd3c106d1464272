//! `anon`: equal blocks in memory without a known owner, their contents and their likely owners.

mod analysis;
mod report;
mod table;

pub use analysis::anon;
pub(in crate::commands) use analysis::{finding, noun, survey};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "anon",
    &[answer::<AnonReport>],
    "Explain anonymous memory without a known owner: contents and likely owner",
);

//! `anon`: memory that nothing claims: equal blocks, what fills them, who owns them.

mod analysis;
mod report;
mod table;

pub use analysis::anon;
pub(in crate::commands) use analysis::{finding, survey};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "anon",
    &[answer::<AnonReport>],
    "Explain anonymous memory without a known owner: contents and likely owner",
);

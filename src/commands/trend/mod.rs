//! `trend`: what grows from look to look, of recordings or of a row of cores ([`crate::series`]).

mod analysis;
mod figures;
mod report;
mod sentences;
mod table;

pub use analysis::{Source, TrendError, trend};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "trend",
    &[answer::<TrendReport>],
    "What grows, of recordings or a row of cores: by kind, type, size of block, and how sure that is",
);

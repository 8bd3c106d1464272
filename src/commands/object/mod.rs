//! `object`: one object and what is in it. Runtimes make this answer: [`ObjectReport`].

mod analysis;
mod table;

pub use analysis::object;

use crate::commands::command::{Command, answer, of_runtime};
use crate::report::ObjectReport;

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_runtime(
    "object",
    &[answer::<ObjectReport>],
    "One object: its fields and their values, text, elements, statics of its type",
);

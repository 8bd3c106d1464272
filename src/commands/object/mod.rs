//! `object`: one object and what is in it. Runtimes make this answer: [`ObjectReport`].

mod analysis;
mod table;

pub use analysis::object;

use crate::commands::command::{Command, answer, of_runtime};
use crate::report::ObjectReport;

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_runtime("object", &[answer::<ObjectReport>], "Show one object's fields, elements and static fields");

//! `object`: shows one object and its contents. Runtimes make the answer, an [`ObjectReport`], and `render` its table.

mod analysis;

pub use analysis::object;

use crate::commands::command::{Command, answer, of_runtime};
use crate::report::ObjectReport;

pub(super) const COMMAND: Command =
    of_runtime("object", &[answer::<ObjectReport>], "Show one object's fields, elements and static fields");

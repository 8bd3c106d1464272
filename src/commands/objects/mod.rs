//! `objects`: the objects of types, one by one.

mod analysis;
mod report;
mod table;

pub use analysis::objects;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_runtime("objects", &[answer::<ObjectsReport>], "List the objects of a type, with address and size");

//! `objects`: lists the objects of types one by one.

mod analysis;
mod report;
mod table;

pub use analysis::objects;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command =
    of_runtime("objects", &[answer::<ObjectsReport>], "List the objects of a type, with address and size");

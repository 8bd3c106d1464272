//! `gcroot`: why objects are alive. Shows paths from roots to one object, or the shapes of the paths to all objects of
//! a type.

mod analysis;
mod report;
mod table;
mod types;
mod types_table;

pub use analysis::gcroot;
pub(in crate::commands) use analysis::gcroots;
pub use report::*;
pub(in crate::commands) use table::path_lines;
pub use types::gcroot_types;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "gcroot",
    &[answer::<GcRootReport>, answer::<GcRootTypesReport>],
    "Show why objects are alive: shortest paths from roots, with field names",
);

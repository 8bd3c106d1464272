//! `finalizers`: lists objects with finalizers.

mod analysis;
mod report;
mod table;

pub use analysis::finalizers;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(in crate::commands) const COMMAND: Command = of_runtime(
    "finalizers",
    &[answer::<FinalizersReport>],
    "List .NET objects with finalizers, and which are ready to be finalized",
);

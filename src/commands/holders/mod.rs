//! `holders`: lists native memory that managed objects point at.

mod analysis;
mod report;
mod shares;
mod states;
mod table;

pub use analysis::holders;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command =
    of_runtime("holders", &[answer::<HoldersReport>], "List native memory owned by managed objects, by type and field");

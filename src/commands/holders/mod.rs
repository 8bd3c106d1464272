//! `holders`: lists native memory that managed objects point at, and malloc blocks by the variable that holds them.

mod across;
mod analysis;
mod native;
mod report;
mod shares;
mod states;
mod table;

pub use analysis::holders;
pub use native::holders_of_blocks;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("holders", &[answer::<HoldersReport>], "List what holds native memory: managed objects, or variables");

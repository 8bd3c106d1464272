//! `syncblocks`: lists the locks of objects, their owners and waiters.

mod analysis;
mod report;
mod table;

pub use analysis::syncblocks;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(in crate::commands) const COMMAND: Command =
    of_runtime("syncblocks", &[answer::<SyncBlocksReport>], "List contended .NET locks with their owners and waiters");

//! `syncblocks`: lists the locks of objects, their owners and waiters.

mod analysis;
mod report;
mod table;

pub use analysis::syncblocks;
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(in crate::commands) const COMMAND: Command = of_process(
    "syncblocks",
    &[answer::<SyncBlocksReport>],
    "List contended locks of .NET and native code with their owners and waiters",
);

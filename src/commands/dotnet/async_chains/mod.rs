//! `async`: what async methods wait for, and what waits for them.

mod analysis;
mod report;
mod table;
mod tasks;

pub use analysis::async_chains;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(in crate::commands) const COMMAND: Command = of_runtime(
    "async",
    &[answer::<AsyncReport>],
    "Show what async methods wait for, and who waits for them (SOS dumpasync, asyncio)",
);

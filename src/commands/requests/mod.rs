//! `requests`: requests in flight, with the method in which each is and what it waits for.

mod analysis;
mod report;
mod table;

pub use analysis::requests;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "requests",
    &[answer::<RequestsReport>],
    "List requests in flight and outgoing calls, with the method that each is in",
);

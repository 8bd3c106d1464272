//! `refs`: finds what points at an address.

mod analysis;
mod report;
mod table;

pub use analysis::{RefsOptions, TargetSpan, refs};
pub(in crate::commands) use analysis::{objects, pointed_at, row};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "refs",
    &[answer::<RefsReport>],
    "Find what points at an address: registers, stacks, objects and all other memory",
);

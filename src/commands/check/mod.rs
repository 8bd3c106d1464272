//! `check`: checks the invariants of the map. Every byte has one label, and the sums agree.

mod analysis;
mod report;
mod table;

pub use analysis::check;
pub use report::*;

pub use crate::map::audit::{Conflict, Invariant};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "check",
    &[answer::<CheckReport>],
    "Check that the memory map is consistent: one label per byte, and sizes that add up",
);

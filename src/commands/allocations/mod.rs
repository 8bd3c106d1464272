//! `allocations`: which code allocated the objects of the heap, as the runtime samples it.

mod analysis;
mod report;
mod table;

pub use analysis::allocations;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "allocations",
    &[answer::<AllocationsReport>],
    "Show which code allocated the heap's objects, from the runtime's sampling profile",
);

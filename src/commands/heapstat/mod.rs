//! `heapstat`: counts the objects on managed heaps by type.

mod analysis;
mod report;
mod table;

pub use analysis::{HeapStatOptions, Reachability, heapstat};
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "heapstat",
    &[answer::<HeapStatReport>],
    "Count objects on the managed heap by type, largest total first",
);

//! `malloc`: shows malloc's arenas, block sizes and groups of similar blocks.

mod analysis;
mod findings;
mod report;
mod slots;
mod table;

pub use analysis::{MallocOptions, malloc};
pub(in crate::commands) use findings::{held, is_pattern, quick, whole};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "malloc",
    &[answer::<MallocReport>],
    "Show malloc memory by arena, size class and group of similar blocks",
);

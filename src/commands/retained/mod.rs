//! `retained`: shows the memory that would be freed with an object or type.

mod analysis;
mod native;
mod report;
mod table;
mod tree;

pub use analysis::{RetainedOptions, retained};
pub use report::*;
pub use tree::{DominatorLimits, DominatorNode, DominatorTree, dominator_tree};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "retained",
    &[answer::<RetainedReport>],
    "Show how many bytes would be freed with each type and object or block (retained size)",
);

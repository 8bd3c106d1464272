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
    "Show the retained size of each type, object or block (what would be freed with it)",
);

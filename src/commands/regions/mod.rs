//! `regions`: the whole map, region by region.

mod analysis;
mod report;
mod table;

pub use analysis::{RegionOptions, regions};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command =
    of_process("regions", &[answer::<RegionsReport>], "List every memory region with its kind, owner and confidence");

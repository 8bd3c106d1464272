//! `regions`: lists the map region by region.

mod analysis;
mod report;
mod table;

pub use analysis::{RegionOptions, regions};
pub use report::*;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("regions", &[answer::<RegionsReport>], "List every memory region with its kind, owner and confidence");

//! `shrink`: reports the smaller core that `crate::shrink` wrote, which still answers the requested commands.

mod plan;
mod report;
mod table;

pub use plan::scrub_plan;
pub use report::*;

pub use crate::scrub::{
    Became, By, Counts, Encoding, Fill, Kept, LeftTexts, Level, Occurrences, Plan, Rule, Runs, unmapped,
};
pub use crate::shrink::{Scrubbed, Shrunk, TextRuns, write, write_scrubbed};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "shrink",
    &[answer::<ShrinkReport>],
    "Write a new core: smaller (--for), or with private data overwritten (--scrub)",
);

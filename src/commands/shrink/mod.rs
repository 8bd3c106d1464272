//! `shrink`: a smaller core that still answers. What is written is made by `crate::shrink`.

mod plan;
mod report;
mod table;

pub use plan::scrub_plan;
pub use report::*;

pub use crate::scrub::{
    Became, By, Counts, Encoding, Fill, Kept, LeftTexts, Level, Places, Plan, Rule, Runs, unmapped,
};
pub use crate::shrink::{Scrubbed, Shrunk, Texts, write, write_scrubbed};

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "shrink",
    &[answer::<ShrinkReport>],
    "Write a new core: smaller (--for), or with private data overwritten (--scrub)",
);

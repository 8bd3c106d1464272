//! `search`: finds text or bytes in the dumped memory.

mod analysis;
mod report;
mod table;

pub use analysis::{SearchOptions, search};
pub use report::*;

pub use crate::search::{Encoding, Pattern, PatternError, PatternOptions};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "search",
    &[answer::<SearchReport>],
    "Find text (UTF-8 and UTF-16), a regular expression or bytes in memory",
);

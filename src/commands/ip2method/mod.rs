//! `ip2method`: the method that a code address is of.

mod analysis;
mod report;
mod table;

pub use analysis::ip2method;
pub(in crate::commands) use analysis::row;
pub use report::*;
pub use table::Short;

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "ip2method",
    &[answer::<Ip2MethodReport>],
    "Resolve code addresses to methods and source lines (SOS ip2md)",
);

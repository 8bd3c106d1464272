//! `ip2method`: finds the method of a code address.

mod analysis;
mod report;
mod table;

pub use analysis::ip2method;
pub(in crate::commands) use analysis::row;
pub use report::*;
pub use table::Short;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "ip2method",
    &[answer::<Ip2MethodReport>],
    "Resolve code addresses to methods and source lines (SOS ip2md)",
);

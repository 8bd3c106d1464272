//! `symbolicate`: names the addresses in the output of tracing tools.

mod analysis;
mod report;
mod table;

pub use analysis::symbolicate;
pub use report::*;

pub use crate::symbolicate::{Cost, Options, SymbolicateError};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "symbolicate",
    &[answer::<SymbolicateReport>],
    "Add names to the addresses in output of perf, heaptrack, memleak or gdb",
);

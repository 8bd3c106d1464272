//! `export`: what a core holds, as a file of other people's viewers. The files are made by `crate::export`.

mod analysis;
mod report;
mod table;

pub use analysis::{ExportOptions, Files, export};
pub use report::*;

pub use crate::export::{ExportError, Output};

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "export",
    &[answer::<ExportReport>],
    "Export heaps, stacks or tables to files for other tools: PerfView, VisualVM, speedscope, pprof, SQL",
);

//! `export`: writes data of a core in the formats of other viewers. `crate::export` encodes them.

mod analysis;
mod report;
mod table;

pub use analysis::{ExportOptions, OutputFiles, export};
pub use report::*;

pub use crate::export::{ExportError, Output};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "export",
    &[answer::<ExportReport>],
    "Export heaps, stacks or tables to files for other tools: PerfView, VisualVM, speedscope, pprof, SQL",
);

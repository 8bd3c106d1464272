//! What was exported.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{ExportFormat, ExportSubject};

/// `export`: the files that were written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExportReport {
    /// What they are.
    pub format: ExportFormat,
    /// What stacks are of; `null` where the format has none.
    pub of: Option<ExportSubject>,
    /// The files; none where the core has nothing for the format.
    pub files: Vec<ExportedRow>,
    /// What is in them, in numbers that other commands tell too.
    pub figures: Vec<FigureRow>,
    /// What the format could not take as it is, in sentences.
    pub limits: Vec<String>,
    /// Why there is no file, in a sentence.
    pub refused: Option<String>,
}

/// A file that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExportedRow {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it has most of: nodes of a graph, stacks, rows of a table.
    pub rows: u64,
}

/// A number of what was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FigureRow {
    /// What is counted: `objects`, `references`, `roots`, `threads`, … (docs/exports.md has all).
    pub figure: &'static str,
    /// How many.
    pub value: u64,
}

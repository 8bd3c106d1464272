//! The report of `export`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{ExportFormat, ExportSubject};

/// `export`: the files that were written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExportReport {
    /// Format of the files.
    pub format: ExportFormat,
    /// Subject of the stacks. `null` if the format has none.
    pub of: Option<ExportSubject>,
    /// The files. Empty if the core has no data for the format.
    pub files: Vec<ExportedRow>,
    /// Their contents in figures that other commands report too.
    pub figures: Vec<FigureRow>,
    /// What the format cannot represent exactly, in sentences.
    pub limits: Vec<String>,
    /// Why no file was written, in a sentence.
    pub refused: Option<String>,
}

/// A file that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExportedRow {
    /// Path.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Number of its main items: nodes of a graph, stacks, rows of a table.
    pub rows: u64,
}

/// A figure of the written data.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FigureRow {
    /// What is counted: `objects`, `references`, `roots`, `threads`, … (docs/exports.md lists all).
    pub figure: &'static str,
    /// The number.
    pub value: u64,
}

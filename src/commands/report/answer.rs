use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::report::LeftOut;

/// `report`: the page that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ReportReport {
    /// Path.
    pub file: String,
    /// Size in bytes.
    pub size: u64,
    /// Answers in the page, by command.
    pub parts: Vec<PartRow>,
    /// Rows omitted to limit the size of the page; the page lists them too.
    pub left_out: Vec<LeftOut>,
}

/// An answer in a page.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PartRow {
    /// The command.
    pub part: String,
    /// Bytes of its data in the page.
    pub size: u64,
}

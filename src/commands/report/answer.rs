use schemars::JsonSchema;
use serde::Serialize;

use crate::commands::report::LeftOut;

/// `report`: the page that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ReportReport {
    /// The file.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// Answers in it, by the names of their commands.
    pub parts: Vec<PartRow>,
    /// What is not in it for want of room; the page says the same.
    pub left_out: Vec<LeftOut>,
}

/// An answer in a page.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PartRow {
    /// The command.
    pub part: String,
    /// Bytes of it in the page's data.
    pub size: u64,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;

/// A managed runtime in the process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuntimeRow {
    /// Name, such as `.NET`.
    pub name: String,
    /// Version.
    pub version: Option<String>,
    /// File that contains it.
    pub module: String,
    /// Load address.
    pub base: Addr,
    /// Collector, as the runtime names it (.NET: workstation or server). `null` if its GC cannot be read.
    pub gc: Option<&'static str>,
    /// Source of its structure layouts.
    pub layout_source: String,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;

/// A managed runtime in the process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuntimeRow {
    /// Its name, e.g. `.NET`.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// File it is loaded from.
    pub module: String,
    /// Where it is loaded.
    pub base: Addr,
    /// Its collector, in the runtime's own words (.NET: workstation or server); `null` where its GC can't be read.
    pub gc: Option<&'static str>,
    /// What its structs are read by.
    pub layout_source: String,
}

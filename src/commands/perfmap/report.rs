use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::CodePart;

/// `perfmap`: the contents of /tmp/perf-PID.map.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PerfMapReport {
    /// Code by address.
    pub entries: Vec<PerfMapRow>,
}

/// A block of code.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PerfMapRow {
    /// Start address.
    pub start: Addr,
    /// Size in bytes.
    pub size: u64,
    /// Name.
    pub name: String,
    /// How it was compiled, as the runtime names it: QuickJitted, OptimizedTier1, C2 4, …
    pub tier: Option<&'static str>,
    /// Which part of the method's code it is, if not the main one.
    pub part: Option<CodePart>,
    /// Whether its line for perf includes the tier.
    #[serde(skip)]
    pub(super) says_tier: bool,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::CodePart;

/// `perfmap`: what /tmp/perf-PID.map would hold.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PerfMapReport {
    /// Code by address.
    pub entries: Vec<PerfMapRow>,
}

/// One block of code.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PerfMapRow {
    /// Where it begins.
    pub start: Addr,
    /// Its bytes.
    pub size: u64,
    /// Its name.
    pub name: String,
    /// How it was compiled, in the runtime's own words: QuickJitted, OptimizedTier1, C2 4, …
    pub tier: Option<&'static str>,
    /// Which part it is, where it is not a method's main one.
    pub part: Option<CodePart>,
    /// Whether its line for perf tells the tier.
    #[serde(skip)]
    pub(super) says_tier: bool,
}

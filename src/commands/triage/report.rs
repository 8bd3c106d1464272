use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ConditionRow, Finding};

/// `triage`: what has the memory. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TriageReport {
    /// Address space: all that is mapped.
    pub size: u64,
    /// Held by the core.
    pub in_core: u64,
    /// Held by the core in pages that are not all zero: what the process wrote, and what of files was
    /// dumped.
    pub written: u64,
    /// What of it findings name.
    pub named: NamedRow,
    /// What of it nobody can name, biggest first.
    pub unnamed: Vec<UnnamedRow>,
    /// Stretches of that that are not listed.
    pub more_unnamed: u64,
    /// Most important first. Each written byte is in the `bytes` of one finding without `within`; what has
    /// `within` is a part of the finding of that id.
    pub findings: Vec<Finding>,
    /// What was not looked at for want of time, in words.
    pub left_out: Vec<String>,
    /// What the conditions of `--fail-if` came to.
    pub conditions: Vec<ConditionRow>,
}

/// Written bytes that a finding names.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct NamedRow {
    /// How many.
    pub bytes: u64,
    /// Their share of all that was written, from 0 to 1.
    pub share: f64,
}

/// Written memory that nobody can name.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct UnnamedRow {
    /// Its first byte.
    pub start: Addr,
    /// The byte after its last.
    pub end: Addr,
    /// Written bytes in it.
    pub bytes: u64,
    /// What most of it is filled with.
    pub content: String,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ConditionRow, Finding};

/// `triage`: where the memory went, most important cause first. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TriageReport {
    /// Mapped address space.
    pub size: u64,
    /// Bytes that the core contains.
    pub in_core: u64,
    /// Bytes that the core contains in pages that are not all zero: memory that the process wrote, and dumped file
    /// contents. Pages that are mapped at two addresses count once.
    pub written: u64,
    /// Bytes of such pages that the core contains a second time, because they are mapped at another address too.
    pub second_views: u64,
    /// Written bytes that the findings explain.
    pub named: NamedRow,
    /// Ranges of written bytes with an unknown owner, largest first.
    pub unnamed: Vec<UnnamedRow>,
    /// Number of such ranges that are not listed.
    pub more_unnamed: u64,
    /// Findings, most important first. Each written byte is counted in `bytes` of exactly one finding without
    /// `within`. A finding with `within` is part of the finding with that id.
    pub findings: Vec<Finding>,
    /// Analyses that were skipped to stay within `--budget`, in words.
    pub left_out: Vec<String>,
    /// Results of the `--fail-if` conditions.
    pub conditions: Vec<ConditionRow>,
}

/// Written bytes that a finding explains.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct NamedRow {
    /// Number of bytes.
    pub bytes: u64,
    /// Share of all written bytes, from 0 to 1.
    pub share: f64,
}

/// A range of written memory with an unknown owner.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct UnnamedRow {
    /// Address of its first byte.
    pub start: Addr,
    /// Address after its last byte.
    pub end: Addr,
    /// Written bytes in the range.
    pub bytes: u64,
    /// Content of most of its pages.
    pub content: String,
}

//! What a reader should notice.

use schemars::JsonSchema;
use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Likely part of the problem.
    Warning,
}

/// Something a reader should notice.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// Stable name.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// In words.
    pub text: String,
    /// What it rests on.
    pub evidence: String,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::map::audit::{Conflict, Invariant};

/// `check`: whether the memory map is consistent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    /// Invariants and whether they hold.
    pub invariants: Vec<Invariant>,
    /// Exact claims that contradict each other.
    pub conflicts: Vec<Conflict>,
}

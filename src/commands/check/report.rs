use schemars::JsonSchema;
use serde::Serialize;

use crate::map::audit::{Conflict, Invariant};

/// `check`
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    /// What must hold.
    pub invariants: Vec<Invariant>,
    /// Sure claims that contradict each other.
    pub conflicts: Vec<Conflict>,
}

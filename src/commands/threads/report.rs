use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Finding, FrameRow, ThreadRow};

/// `threads`: what every thread is doing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadsReport {
    /// All threads of the core, in its order; without frames where they are grouped.
    pub threads: Vec<ThreadRow>,
    /// Equal stacks merged, those of most threads first; where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupRow>>,
    /// What a reader should notice: deadlocks, locks that many wait for.
    pub findings: Vec<Finding>,
}

/// Threads with the same stack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GroupRow {
    /// How many.
    pub count: usize,
    /// Which.
    pub tids: Vec<u32>,
    /// Their stack, as of the first of them.
    pub frames: Vec<FrameRow>,
}

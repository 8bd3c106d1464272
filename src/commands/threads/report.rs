use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Finding, FrameRow, ThreadRow, WaitRow};

/// `threads`: what every thread is doing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadsReport {
    /// All threads of the core, in its order; without frames where they are grouped.
    pub threads: Vec<ThreadRow>,
    /// Equal stacks merged, those of most threads first; where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupRow>>,
    /// Threads that runtimes run on those of the system; where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_threads: Option<VirtualThreads>,
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

/// Threads that are none of the system's: virtual threads of Java.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VirtualThreads {
    /// How many have begun and have not ended.
    pub total: u64,
    /// Of those, the ones that are on a thread of the system.
    pub mounted: u64,
    /// Those with equal stacks and in one state merged, those of most threads first.
    pub groups: Vec<VirtualGroupRow>,
}

/// Virtual threads with the same stack.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VirtualGroupRow {
    /// How many.
    pub count: u64,
    /// What they do, in the runtime's words.
    pub state: Option<&'static str>,
    /// Which, as far as they are listed (64).
    pub threads: Vec<VirtualThreadRow>,
    /// What the first of them waits for.
    pub waits_for: Option<WaitRow>,
    /// How many different objects they wait for.
    pub objects: u64,
    /// Their stack, as of the first of them, without what is on a thread of the system.
    pub frames: Vec<FrameRow>,
    /// Why there are no more frames, where there should be.
    pub end: Option<&'static str>,
}

/// A virtual thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VirtualThreadRow {
    /// Its object.
    pub object: Addr,
    /// The runtime's number of it.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// The thread of the system that it is on.
    pub carrier_tid: Option<u32>,
}

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ExecutorRow, Finding, FrameRow, ThreadRow, WaitRow};

/// `threads`: what every thread is doing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadsReport {
    /// All threads in the order of the core. Without frames if they are grouped.
    pub threads: Vec<ThreadRow>,
    /// Processor time of the whole process in milliseconds, ended threads included. `null` if it is not recorded.
    pub process_cpu_ms: Option<u64>,
    /// Equal stacks merged, largest groups first, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupRow>>,
    /// Virtual threads, which runtimes run on threads of the system, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_threads: Option<VirtualThreads>,
    /// Pools of threads, with what is queued in them.
    pub executors: Vec<ExecutorRow>,
    /// Findings: deadlocks, and locks that many threads wait for.
    pub findings: Vec<Finding>,
    /// Names of the files that contain a runtime and nothing of the program.
    #[serde(skip)]
    pub runtime_libraries: BTreeSet<String>,
}

/// Threads with the same stack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GroupRow {
    /// Number of threads.
    pub count: usize,
    /// Their ids.
    pub tids: Vec<u32>,
    /// Stack of the first thread.
    pub frames: Vec<FrameRow>,
}

/// Threads that a runtime runs on threads of the system: virtual threads of Java, goroutines of Go.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VirtualThreads {
    /// Number of started threads that have not ended.
    pub total: u64,
    /// Number of them mounted on a carrier thread.
    pub mounted: u64,
    /// Threads with equal stacks and state merged, largest groups first.
    pub groups: Vec<VirtualGroupRow>,
    /// Word for such a thread.
    #[serde(skip)]
    #[schemars(skip)]
    pub word: &'static str,
}

/// Virtual threads with the same stack.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VirtualGroupRow {
    /// Number of threads.
    pub count: u64,
    /// Thread state, as the runtime names it.
    pub state: Option<&'static str>,
    /// The threads, at most 64.
    pub threads: Vec<VirtualThreadRow>,
    /// What the first thread waits for.
    pub waits_for: Option<WaitRow>,
    /// Number of different objects that they wait for.
    pub objects: u64,
    /// The method that started them: of a goroutine, the one with the `go` statement. `null` if it is not recorded.
    pub created_by: Option<String>,
    /// File and line of that call, as `file:line`.
    pub created_at: Option<String>,
    /// Stack of the first thread, without frames on a carrier thread.
    pub frames: Vec<FrameRow>,
    /// Why the stack ends early, if it does.
    pub end: Option<&'static str>,
}

/// A virtual thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VirtualThreadRow {
    /// Address of its object.
    pub object: Addr,
    /// Id in the runtime.
    pub id: Option<u64>,
    /// Name of the thread.
    pub name: Option<String>,
    /// Id of its carrier thread.
    pub carrier_tid: Option<u32>,
}

//! Pools of threads, as runtimes return them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;

/// A pool of threads with its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExecutorRow {
    /// Kind of pool, in the runtime's words.
    pub kind: &'static str,
    /// Name of the pool.
    pub name: String,
    /// The object. `null` if it has none.
    pub address: Option<Addr>,
    /// Number of its threads. `null` if it could not be read.
    pub workers: Option<u32>,
    /// Number of threads that run work. `null` if it could not be read.
    pub busy: Option<u32>,
    /// Number of threads up to which one is added at once. `null` if it could not be read.
    pub min_workers: Option<u32>,
    /// Maximum number of threads. `null` if it could not be read.
    pub max_workers: Option<u32>,
    /// Its threads by system id, as far as they are known.
    pub tids: Vec<u32>,
    /// Queued work, by what it runs; most first. `null` if the queues could not be read.
    pub queued: Option<Vec<QueuedRow>>,
}

/// Queued work of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QueuedRow {
    /// The method that it runs, or the type of the object.
    pub item: String,
    /// Number of such items.
    pub count: u64,
    /// One of the items.
    pub example: Addr,
}

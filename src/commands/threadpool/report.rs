use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Name, QueuedRow};

/// `threadpool`: pools of threads and executors.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadpoolReport {
    /// The pools, by runtime.
    pub pools: Vec<PoolRow>,
    /// Runtimes of the process whose pools are not read. Theirs are missing from the list.
    pub unread: Vec<String>,
}

/// A pool of threads.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PoolRow {
    /// Runtime of the pool.
    pub runtime: Name,
    /// Kind of pool, in the runtime's words.
    pub kind: String,
    /// Name of the pool. `null` if it has none.
    pub name: Option<String>,
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
    /// Number of queued items. `null` if the queues could not be read.
    pub queued: Option<u64>,
    /// Queued work by what it runs, most first. `null` if the queues could not be read.
    pub items: Option<Vec<QueuedItemRow>>,
}

/// Queued work of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct QueuedItemRow {
    /// The method that it runs, or the type of the object.
    pub item: String,
    /// Number of such items.
    pub count: u64,
    /// One of the items. `null` if only their type is known.
    pub example: Option<Addr>,
}

impl From<QueuedRow> for QueuedItemRow {
    fn from(row: QueuedRow) -> QueuedItemRow {
        QueuedItemRow { item: row.item, count: row.count, example: Some(row.example) }
    }
}

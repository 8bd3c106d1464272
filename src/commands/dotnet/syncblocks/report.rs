use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// `syncblocks`: locks that are or were contended.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SyncBlocksReport {
    /// Sync blocks, by index.
    pub blocks: Vec<SyncBlockRow>,
    /// Runtimes of the process whose locks are not read. They are missing from the list.
    pub unread: Vec<String>,
}

/// A sync block.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SyncBlockRow {
    /// Index.
    pub index: u32,
    /// Address.
    pub address: Option<Addr>,
    /// Its object.
    pub object: Addr,
    /// Type of the object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Whether the lock is held.
    pub held: bool,
    /// Thread that holds it.
    pub owner: Option<LockThreadRow>,
    /// How many times the owner entered it.
    pub recursion: u32,
    /// Number of threads that wait for the lock.
    pub waiting: u32,
    /// Threads in Monitor.Wait on it.
    pub pulse: Vec<LockThreadRow>,
}

/// A thread that holds a lock or waits for it.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct LockThreadRow {
    /// Address of its Thread.
    pub address: Option<Addr>,
    /// Thread id of the system.
    pub tid: Option<u32>,
    /// Managed thread id.
    pub managed_id: Option<u32>,
}

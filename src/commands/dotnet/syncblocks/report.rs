use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// `syncblocks`: locks that are contended, or were.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SyncBlocksReport {
    /// By index.
    pub blocks: Vec<SyncBlockRow>,
}

/// A sync block.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SyncBlockRow {
    /// Its index.
    pub index: u32,
    /// Where it is.
    pub address: Option<Addr>,
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Whether its lock is held.
    pub held: bool,
    /// Who holds it.
    pub owner: Option<LockThreadRow>,
    /// How many times.
    pub recursion: u32,
    /// Threads that want the lock.
    pub waiting: u32,
    /// Threads in Monitor.Wait on it.
    pub pulse: Vec<LockThreadRow>,
}

/// A thread with a lock, or that wants one.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct LockThreadRow {
    /// Its Thread.
    pub address: Option<Addr>,
    /// The system's number of it.
    pub tid: Option<u32>,
    /// The number that managed code knows it by.
    pub managed_id: Option<u32>,
}

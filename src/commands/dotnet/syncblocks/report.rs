use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::Name;
use crate::words::LockKind;

/// `syncblocks`: locks that are or were contended, of .NET and of native code.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SyncBlocksReport {
    /// Sync blocks, by index.
    pub blocks: Vec<SyncBlockRow>,
    /// Locks of all kinds that are held or waited for: those of .NET with most waiters first, then native ones that a
    /// thread waits for. Up to .NET 10 only monitors and System.Threading.Lock. Native condition variables and
    /// semaphores only of threads that no runtime knows.
    pub locks: Vec<LockRow>,
    /// Runtimes of the process whose locks are not read. They are missing from the lists.
    pub unread: Vec<String>,
}

/// A lock that is held or waited for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LockRow {
    /// Kind of lock.
    pub kind: LockKind,
    /// The object. `null` for a native lock.
    pub object: Option<Addr>,
    /// Address of the object, or of the native lock.
    pub address: Option<Addr>,
    /// Type of the object, or the native lock in the words of its library.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Thread that holds it, or that is joined. `null` if there is none, or if such a lock has no owner.
    pub owner: Option<LockThreadRow>,
    /// Whether the owner's thread has certainly ended, so that nothing can release the lock.
    pub owner_ended: bool,
    /// How often the owner entered it; 0 without an owner.
    pub times: u32,
    /// Threads that wait for it, in the order of the queue from .NET 11 on.
    pub waiters: Vec<LockThreadRow>,
    /// Number of waiting threads that are not in `waiters`, because only their number is known (up to .NET 8).
    pub unknown_waiters: u32,
    /// Threads that hold it for reading.
    pub readers: Vec<LockThreadRow>,
    /// Number of async methods that wait for it.
    pub async_waiters: u64,
    /// Confidence.
    pub confidence: Confidence,
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
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LockThreadRow {
    /// Address of its Thread.
    pub address: Option<Addr>,
    /// Thread id of the system.
    pub tid: Option<u32>,
    /// Managed thread id.
    pub managed_id: Option<u32>,
    /// Name that managed code gave to the thread.
    pub name: Option<String>,
}

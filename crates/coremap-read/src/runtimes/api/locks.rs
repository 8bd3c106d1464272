//! Locks and exceptions that a runtime lists from its heap.

use crate::addr::Addr;
use crate::map::Confidence;
use crate::words::LockKind;

/// A thread that holds a lock or waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockParty {
    /// Address of its object or structure.
    pub address: Option<Addr>,
    /// Thread id of the system.
    pub tid: Option<u32>,
    /// Thread id of the runtime.
    pub managed_id: Option<u32>,
    /// Name that the program gave to it.
    pub name: Option<String>,
}

/// A lock that is held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLock {
    /// Kind of lock.
    pub kind: LockKind,
    /// The object.
    pub object: Addr,
    /// Thread that holds it, or that is joined.
    pub owner: Option<LockParty>,
    /// How often the owner entered it; 0 without an owner.
    pub times: u32,
    /// Threads that wait for it, in the order of the queue.
    pub waiters: Vec<LockParty>,
    /// Number of async methods that wait for it.
    pub async_waiters: u64,
    /// Confidence.
    pub confidence: Confidence,
}

/// The locks of a runtime whose heap has all of them.
pub trait LockList: Sync {
    /// The locks, those with most waiters first. `None` if they can't be read.
    fn listed_locks(&self) -> Option<&[ListedLock]>;
}

/// An exception object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedException {
    /// Address.
    pub object: Addr,
    /// Type.
    pub type_name: String,
    /// Its message, if it has its own.
    pub message: Option<String>,
    /// HRESULT.
    pub hresult: Option<u32>,
    /// Inner exception.
    pub inner: Option<Addr>,
    /// Whether it has a stack trace, and so was thrown.
    pub thrown: Option<bool>,
    /// Name of its generation.
    pub generation: &'static str,
}

/// The exception objects of a runtime.
pub trait ExceptionList: Sync {
    /// The exceptions by address, and the number of those not listed. `None` if they can't be read.
    fn listed_exceptions(&self) -> Option<(Vec<ListedException>, u64)>;
}

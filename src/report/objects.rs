//! Lists of objects.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{FinalizerState, Generation, Name};

/// `objects`: objects of the types asked for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectsReport {
    /// By address.
    pub objects: Vec<ListedObject>,
    /// Bytes of those listed.
    pub size: u64,
    /// How many more there are.
    pub more: u64,
}

/// An object in a list.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ListedObject {
    /// Where it begins.
    pub address: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its size.
    pub size: u64,
    /// Generation that it is in, in the runtime's own words.
    pub generation: &'static str,
    /// Number of its GC heap.
    pub heap: u32,
}

/// `finalizers`: objects with finalizers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FinalizersReport {
    /// In the order of the GC's queue.
    pub objects: Vec<FinalizerRow>,
    /// Their types.
    pub types: Vec<FinalizerTypeRow>,
    /// Objects whose finalizer is not due.
    pub registered: u64,
    /// Objects whose finalizer is due and has not run.
    pub ready: u64,
}

/// An object with a finalizer.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FinalizerRow {
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its size.
    pub size: Option<u64>,
    /// Whether its finalizer is due.
    pub state: FinalizerState,
    /// Generation it is registered for.
    pub generation: Option<Generation>,
    /// Number of its GC heap.
    pub heap: u32,
}

/// Objects of one type with finalizers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FinalizerTypeRow {
    /// The type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Whether its finalizer is due.
    pub state: FinalizerState,
    /// How many.
    pub count: u64,
}

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

/// `exceptions`: exception objects on the heap.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionsReport {
    /// By address.
    pub exceptions: Vec<ExceptionRow>,
    /// How many more there are.
    pub more: u64,
}

/// An exception.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionRow {
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its message, where it has one of its own.
    pub message: Option<String>,
    /// Its HRESULT.
    pub hresult: Option<String>,
    /// The exception within it.
    pub inner: Option<Addr>,
    /// Whether it has a stack trace, as those do that were thrown.
    pub thrown: Option<bool>,
    /// Generation that it is in, in the runtime's own words.
    pub generation: &'static str,
}

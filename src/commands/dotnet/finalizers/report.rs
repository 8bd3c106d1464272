use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{FinalizerState, Generation, Name};

/// `finalizers`: objects with finalizers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FinalizersReport {
    /// Objects in the order of the GC's queue.
    pub objects: Vec<FinalizerRow>,
    /// Objects by type.
    pub types: Vec<FinalizerTypeRow>,
    /// Number of objects whose finalizer is not due.
    pub registered: u64,
    /// Number of objects whose finalizer is due but has not run.
    pub ready: u64,
    /// Runtimes of the process whose finalizers are not read. They are missing from the list.
    pub unread: Vec<String>,
}

/// An object with a finalizer.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FinalizerRow {
    /// Address.
    pub object: Addr,
    /// Type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Whether its finalizer is due.
    pub state: FinalizerState,
    /// Generation of its registration.
    pub generation: Option<Generation>,
    /// Index of its GC heap.
    pub heap: u32,
}

/// Objects of one type with finalizers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FinalizerTypeRow {
    /// The type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Whether their finalizers are due.
    pub state: FinalizerState,
    /// Number of objects.
    pub count: u64,
}

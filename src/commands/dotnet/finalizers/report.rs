use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{FinalizerState, Generation, Name};

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

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{HandleKind, Name};

/// `handles`: the GC handles that lead to objects.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HandlesReport {
    /// By address.
    pub handles: Vec<HandleRow>,
    /// Number of each kind.
    pub kinds: Vec<HandleKindRow>,
    /// Handles by kind and type, those first whose objects are biggest together, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<HandleGroupRow>>,
}

/// A handle.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HandleRow {
    /// Where it is.
    pub address: Addr,
    /// What it does for the object.
    pub kind: HandleKind,
    /// The object.
    pub object: Addr,
    /// Its type; `null` where it is not in the core.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// The object that a dependent handle keeps with it.
    pub secondary: Option<Addr>,
    /// That object's type.
    pub secondary_type: Option<Name>,
    /// Size of the object in bytes.
    pub size: Option<u64>,
}

/// Handles of one kind to objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HandleGroupRow {
    /// The kind.
    pub kind: HandleKind,
    /// The type; `null` of objects that are not in the core.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// How many handles.
    pub count: u64,
    /// Bytes of the objects, each once: several handles may lead to one.
    pub bytes: u64,
    /// One of the objects.
    pub example: Addr,
}

/// Handles of one kind.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct HandleKindRow {
    /// The kind.
    pub kind: HandleKind,
    /// How many.
    pub count: u64,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{HandleKind, Name};

/// `handles`: GC handles that refer to objects.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HandlesReport {
    /// Handles, by address.
    pub handles: Vec<HandleRow>,
    /// Number of handles per kind.
    pub kinds: Vec<HandleKindRow>,
    /// Runtimes of the process whose handles are not read. They are missing from the list.
    pub unread: Vec<String>,
    /// Handles by kind and type, by bytes of their objects, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<HandleGroupRow>>,
}

/// A GC handle.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HandleRow {
    /// Address of the handle.
    pub address: Addr,
    /// Kind of handle.
    pub kind: HandleKind,
    /// Object that it refers to.
    pub object: Addr,
    /// Type of the object. `null` if it is not in the core.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Object that a dependent handle keeps alive with it.
    pub secondary: Option<Addr>,
    /// Type of that object.
    pub secondary_type: Option<Name>,
    /// Size of the object in bytes.
    pub size: Option<u64>,
}

/// Handles of one kind to objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HandleGroupRow {
    /// The kind.
    pub kind: HandleKind,
    /// The type. `null` for objects that are not in the core.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Number of handles.
    pub count: u64,
    /// Bytes of the objects. Each object counts once, even with several handles.
    pub bytes: u64,
    /// One of the objects.
    pub example: Addr,
}

/// Handles of one kind.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct HandleKindRow {
    /// The kind.
    pub kind: HandleKind,
    /// Number of handles.
    pub count: u64,
}

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
}

/// Handles of one kind.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct HandleKindRow {
    /// The kind.
    pub kind: HandleKind,
    /// How many.
    pub count: u64,
}

use serde::Serialize;

use crate::addr::Addr;
use crate::report::objects::Name;

/// `handles`: the GC handles that lead to objects.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HandlesReport {
    /// By address.
    pub handles: Vec<HandleRow>,
    /// Number of each kind.
    pub kinds: Vec<HandleKindRow>,
}

/// A handle.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HandleRow {
    /// Where it is.
    pub address: Addr,
    /// Its kind, as SOS names it.
    pub kind: &'static str,
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
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HandleKindRow {
    /// The kind.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
}

/// `gcroot`: why an object is alive.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GcRootReport {
    /// The object.
    pub object: Addr,
    /// Its type; `null` where there is no object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its size.
    pub size: Option<u64>,
    /// A shortest path from each root that leads to it, the shortest first.
    pub paths: Vec<RootPathRow>,
    /// Whether there may be more.
    pub more: bool,
    /// Roots of the whole heap.
    pub roots: u64,
    /// Objects looked at.
    pub visited: u64,
}

/// A path from a root.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RootPathRow {
    /// StrongHandle, PinnedHandle, ThreadStatics, FinalizerQueue, Stack (conservative), …
    pub root_kind: String,
    /// Where the root is; for a register, the thread's stack pointer.
    pub root_address: Addr,
    /// The thread that it is of.
    pub thread: Option<u32>,
    /// The register that it is.
    pub register: Option<&'static str>,
    /// From the root's object to the one asked for.
    pub chain: Vec<ChainRow>,
}

/// An object on a path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainRow {
    /// Where.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its field, or element, that leads to the next one.
    pub field: Option<Name>,
}

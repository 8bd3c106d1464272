use serde::Serialize;

use crate::addr::Addr;
use crate::report::ObjectsRow;
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

/// `gcroot --type`: what keeps the objects of some types.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GcRootTypesReport {
    /// Their types, where there are live objects of them.
    pub types: Vec<Name>,
    /// All of them that live.
    pub live: ObjectsRow,
    /// Those that no root leads to.
    pub unreachable: ObjectsRow,
    /// Shapes of the shortest paths to them, those that keep most first.
    pub groups: Vec<RootGroupRow>,
    /// Groups left out.
    pub more: u64,
    /// Roots of the whole heap.
    pub roots: u64,
}

/// Objects that are kept in the same way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RootGroupRow {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
    /// Bytes that they dominate, their own among them; an object that another one of
    /// those asked for dominates is in what that one keeps.
    pub retained: u64,
    /// As [`RootPathRow::root_kind`].
    pub root_kind: String,
    /// The static variable that the path begins with.
    pub root_name: Option<Name>,
    /// From the roots' objects to those asked for.
    pub chain: Vec<StepRow>,
    /// Objects of the longest path.
    pub longest: u64,
    /// One of the shortest.
    pub example: RootPathRow,
}

/// A step of a group's paths: one object, or several in a row that hold each other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepRow {
    /// Type.
    #[serde(rename = "type")]
    pub name: Name,
    /// The field, or element, that leads to the next step.
    pub field: Option<Name>,
    /// Objects of the longest path that this step stands for, beyond the first.
    pub repeats: u64,
    /// Fields by which they hold each other.
    pub through: Vec<Name>,
}

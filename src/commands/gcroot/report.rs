use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Name, ObjectsRow, RootPathRow, StackRootsRow};

/// `gcroot`: why an object is alive.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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
    /// How roots of stacks were found.
    pub stacks: StackRootsRow,
}

/// `gcroot --type`: what keeps the objects of some types.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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
    /// How roots of stacks were found.
    pub stacks: StackRootsRow,
}

/// Objects that are kept in the same way.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
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

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Name, ObjectsRow, RootPathRow, StackRootsRow};

/// `gcroot`: why an object is alive.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GcRootReport {
    /// The object.
    pub object: Addr,
    /// Type of the object. `null` if there is no object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Size of the object in bytes.
    pub size: Option<u64>,
    /// A shortest path from each root that reaches it, shortest first. Paths from words that may be references
    /// (`precise` is false) are last.
    pub paths: Vec<RootPathRow>,
    /// Whether more paths may exist.
    pub more: bool,
    /// Number of roots of the whole heap.
    pub roots: u64,
    /// Number of objects visited.
    pub visited: u64,
    /// Kinds of roots that could not be read, such as `GC handles`. The object may be alive through these.
    pub not_read: Vec<String>,
    /// How stack roots were found.
    pub stacks: StackRootsRow,
}

/// `gcroot --type`: why objects of some types are alive.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GcRootTypesReport {
    /// Matching types with live objects.
    pub types: Vec<Name>,
    /// Live objects of these types.
    pub live: ObjectsRow,
    /// Objects of these types that no root reaches. If `not_read` is not empty, some of them may be alive.
    pub unreachable: ObjectsRow,
    /// Roots and references that could not be read, such as `GC handles`.
    pub not_read: Vec<String>,
    /// Shapes of the shortest paths to them, by retained bytes.
    pub groups: Vec<RootGroupRow>,
    /// Number of groups not listed.
    pub more: u64,
    /// Number of roots of the whole heap.
    pub roots: u64,
    /// How stack roots were found.
    pub stacks: StackRootsRow,
}

/// Objects reached by paths of one shape.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootGroupRow {
    /// Number of objects.
    pub count: u64,
    /// Bytes of these objects.
    pub size: u64,
    /// Bytes that they dominate, including their own. An object dominated by another matching object counts for that
    /// object.
    pub retained: u64,
    /// See [`RootPathRow::root_kind`].
    pub root_kind: String,
    /// Static variable that the path begins with.
    pub root_name: Option<Name>,
    /// Steps from the objects of the roots to the matching objects.
    pub chain: Vec<StepRow>,
    /// Number of objects on the longest path.
    pub longest: u64,
    /// One of the shortest paths.
    pub example: RootPathRow,
}

/// A step of a path shape: one object, or a chain of objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StepRow {
    /// Type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Field or element that leads to the next step.
    pub field: Option<Name>,
    /// Number of further objects of the longest path in this step.
    pub repeats: u64,
    /// Fields that link the objects of the chain.
    pub through: Vec<Name>,
}

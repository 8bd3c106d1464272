use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Name, ObjectsRow, StackRootsRow, TypeRow};

/// `retained`: what would be freed with what. Sizes in bytes, as `heapstat` counts
/// them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RetainedReport {
    /// Objects that roots lead to.
    pub live: ObjectsRow,
    /// Objects that none leads to, and that are not collected yet. With the live ones
    /// all objects on the heap.
    pub unreachable: ObjectsRow,
    /// Bytes that only roots of one kind keep.
    pub roots: Vec<RootSumRow>,
    /// Bytes that roots of several kinds keep.
    pub several: u64,
    /// The object asked for.
    pub object: Option<RetainedRow>,
    /// What dominates it, the nearest first.
    pub dominators: Vec<RetainedRow>,
    /// By retained bytes, biggest first; with an object asked for, only what that
    /// dominates.
    pub types: Vec<RetainedTypeRow>,
    /// Types left out.
    pub more_types: u64,
    /// By retained bytes, biggest first, without those that one of their own type
    /// dominates with nothing between them, as the nodes of a list do. With an object
    /// asked for, only and all that it dominates with nothing between them.
    pub objects: Vec<RetainedRow>,
    /// Types of unreachable objects, biggest first.
    pub unreachable_types: Vec<TypeRow>,
    /// How roots of stacks were found.
    pub stacks: StackRootsRow,
}

/// Roots of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootSumRow {
    /// StrongHandle, PinnedHandle, ThreadStatics, FinalizerQueue, FrozenSegment,
    /// Stack (conservative), …
    pub root_kind: String,
    /// How many there are.
    pub count: u64,
    /// Bytes that would be freed without them.
    pub retained: u64,
}

/// Live objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RetainedTypeRow {
    /// Its MethodTable.
    pub method_table: Addr,
    /// Its name.
    #[serde(rename = "type")]
    pub name: Name,
    /// Number of objects.
    pub count: u64,
    /// Their own bytes.
    pub size: u64,
    /// Bytes that they dominate; of objects of the type that dominate each other only
    /// the outermost is counted.
    pub retained: u64,
}

/// A live object.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RetainedRow {
    /// Where.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its own bytes.
    pub size: Option<u64>,
    /// Bytes that would be freed with it; `null` where no root leads to it.
    pub retained: Option<u64>,
    /// The object that all paths to it lead through last.
    pub dominator: Option<Addr>,
    /// That object's type.
    pub dominator_type: Option<Name>,
    /// That object's field, or element, that holds it; `null` where others stand
    /// between them.
    pub dominator_field: Option<Name>,
    /// Where no object dominates it: the kind of the roots that keep it, or `several`.
    pub root_kind: Option<String>,
    /// Then too, kinds of the roots that lead to the object itself.
    pub root_kinds: Vec<String>,
    /// The first of these roots.
    pub root_address: Option<Addr>,
    /// The thread that this is of.
    pub thread: Option<u32>,
}

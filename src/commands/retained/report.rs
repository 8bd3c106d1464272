use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Name, ObjectsRow, StackRootsRow, TypeRow};

/// `retained`: memory that would be freed with an object or type. Sizes in bytes, as in `heapstat`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RetainedReport {
    /// Reachable objects.
    pub live: ObjectsRow,
    /// Objects that no root reaches and that are not collected yet. With the live objects, these are all objects on the
    /// heap. If `not_read` is not empty, some of them may be alive.
    pub unreachable: ObjectsRow,
    /// Roots and references that could not be read, such as `GC handles`.
    pub not_read: Vec<String>,
    /// Bytes that only roots of one kind retain.
    pub roots: Vec<RootSumRow>,
    /// Bytes that roots of several kinds retain.
    pub several: u64,
    /// The requested object.
    pub object: Option<RetainedRow>,
    /// Its dominators, nearest first.
    pub dominators: Vec<RetainedRow>,
    /// Types by retained bytes, largest first. With a requested object, only types that it dominates.
    pub types: Vec<RetainedTypeRow>,
    /// Number of types not listed.
    pub more_types: u64,
    /// Objects by retained bytes, largest first, without objects whose immediate dominator has the same type (such as
    /// nodes of a list). With a requested object: all objects that it dominates immediately.
    pub objects: Vec<RetainedRow>,
    /// Types of unreachable objects, largest first.
    pub unreachable_types: Vec<TypeRow>,
    /// How stack roots were found.
    pub stacks: StackRootsRow,
    /// Whether the objects are malloc blocks: in a process without a managed runtime, or if one was requested. Sizes are
    /// those of chunks.
    pub native: bool,
}

/// Roots of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RootSumRow {
    /// Kind: StrongHandle, PinnedHandle, ThreadStatics, FinalizerQueue, FrozenSegment, Stack (conservative), …
    pub root_kind: String,
    /// Number of roots.
    pub count: u64,
    /// Bytes that would be freed without them.
    pub retained: u64,
}

/// Live objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RetainedTypeRow {
    /// Address of the MethodTable; of a class of C++ that of its virtual table. Zero for blocks without a class.
    pub method_table: Addr,
    /// Name of the type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Number of objects.
    pub count: u64,
    /// Bytes of the objects themselves.
    pub size: u64,
    /// Bytes that they dominate. Where objects of the type dominate each other, only the outermost counts.
    pub retained: u64,
}

/// A live object.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RetainedRow {
    /// Address.
    pub object: Addr,
    /// Type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// What the object is in the program, where the type does not say it: `globals of __main__`. `null` for others.
    pub title: Option<String>,
    /// Bytes of the object itself.
    pub size: Option<u64>,
    /// Bytes that would be freed with it. `null` if it is unreachable.
    pub retained: Option<u64>,
    /// Immediate dominator: the last object on all paths to it.
    pub dominator: Option<Addr>,
    /// Type of the dominator.
    pub dominator_type: Option<Name>,
    /// What the dominator is in the program, as `title` has it.
    pub dominator_title: Option<String>,
    /// Field or element of the dominator that refers to it. `null` if other objects are between them.
    pub dominator_field: Option<Name>,
    /// If no object dominates it: the kind of the roots that retain it, or `several`.
    pub root_kind: Option<String>,
    /// If no object dominates it: kinds of the roots that refer to the object itself.
    pub root_kinds: Vec<String>,
    /// Address of the first of these roots.
    pub root_address: Option<Addr>,
    /// Thread of that root.
    pub thread: Option<u32>,
    /// Name of that root, if it is a variable or a stack of native code, or a field of another runtime's object.
    pub root_name: Option<String>,
}

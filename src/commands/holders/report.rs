use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{BufferMemory, ChunkSum, HolderState, Name, NativeHeldRow};

/// `holders`: types whose objects point at native memory.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HoldersReport {
    /// Types and their fields, by the bytes that belong to them: blocks that they point at, and what these lead to before
    /// a block that another row points at. The runtime's own structures are last.
    pub holders: Vec<HolderRow>,
    /// Number of rows not listed.
    pub more: u64,
    /// Native memory that objects point at; each block counts once.
    pub total: HeldTotal,
    /// Native memory that objects reach, directly or through malloc blocks; each block counts once.
    pub reached: HeldTotal,
    /// `reached` by the state of the objects. What objects of several states reach counts for the first of live, queued,
    /// unreached and dead. Without the runtime's own structures.
    pub by_state: Vec<HeldByState>,
    /// Native memory that objects own, by type: direct and mapped buffers. malloc blocks among it are in `total` too.
    pub buffers: Vec<OwnedRow>,
    /// Objects that objects of another runtime hold, by the holder's type and field, most bytes first. Empty if the
    /// process has one runtime.
    pub across: Vec<AcrossRow>,
    /// malloc blocks by the root that holds them, most bytes first: with `--native`, and for a process without a managed
    /// runtime.
    pub native: Vec<NativeHeldRow>,
    /// Bytes of all used malloc blocks, if `native` was computed.
    pub used: Option<u64>,
}

/// Objects of one runtime that a field of another runtime's objects holds. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AcrossRow {
    /// Runtime of the holders.
    pub runtime: String,
    /// Type of the holders.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Field that has the reference. `null` for elements of an array.
    pub field: Option<Name>,
    /// Number of holders.
    pub objects: u64,
    /// Root of one of the holders: a static variable, else the kind of the root. `null` if no root reaches it.
    pub owner: Option<String>,
    /// One of the holders.
    pub object: Addr,
    /// Runtime of the objects that they hold.
    pub held_runtime: String,
    /// Most frequent type of these.
    pub held_type: Option<Name>,
    /// Number of these objects.
    pub held: u64,
    /// What they retain.
    pub retained: u64,
    /// The one that retains most.
    pub held_object: Addr,
}

/// Native memory that objects of one type own. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OwnedRow {
    /// The type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Field that points to the memory.
    pub field: Name,
    /// Source of the memory.
    pub memory: BufferMemory,
    /// Number of objects that own memory.
    pub objects: u64,
    /// Bytes of that memory.
    pub bytes: u64,
    /// Object that owns most.
    pub object: Addr,
}

/// Native memory that objects of one state reach.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct HeldByState {
    /// State of the objects. `null` if unknown.
    pub state: Option<HolderState>,
    /// What they reach, and objects of the preceding states do not.
    pub reached: HeldTotal,
    /// Whether all of these objects have finalizers. `null` if the runtime's finalizers are not read.
    pub finalizable: Option<bool>,
}

/// Native memory. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldTotal {
    /// malloc blocks, including headers.
    pub malloc: ChunkSum,
    /// Anonymous mappings, or blocks within one.
    pub mmap: ChunkSum,
}

/// Fields of one type that point at native memory. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HolderRow {
    /// The type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// The field. `null` for elements of an array.
    pub field: Option<Name>,
    /// Number of objects that point at native memory.
    pub objects: u64,
    /// malloc blocks that they point at, including headers.
    pub malloc: ChunkSum,
    /// These blocks by size, for users of the library.
    #[serde(skip)]
    pub sizes: BTreeMap<u64, ChunkSum>,
    /// Anonymous mappings that they point at.
    pub mmap: ChunkSum,
    /// State of the objects. Objects of one type in different states have rows of their own. `null` if the graph of
    /// objects is too large.
    pub state: Option<HolderState>,
    /// Number of the objects that are registered for finalization. `null` if the runtime's finalizers are not read.
    pub finalizable: Option<u64>,
    /// Whether these are the runtime's own structures that objects represent: threads, assemblies.
    pub of_runtime: bool,
    /// malloc blocks reachable from these blocks, including them. Other objects may reach them too. `null` if not
    /// counted.
    pub reaches: Option<ChunkSum>,
    /// Anonymous mappings reachable from these blocks, and those that the objects point at. Other objects may reach them
    /// too. `null` if not counted.
    pub reaches_mmap: Option<ChunkSum>,
    /// The part of it that no other row reaches. Native code may reach it too. The rows of the program do not count the
    /// runtime's rows as others.
    pub alone: HeldTotal,
    /// The part of it that other rows reach too. It must not be added to what they share. `null` if not counted.
    pub shared: Option<HeldTotal>,
    /// Type and field of the row that shares most of it. `null` if none does, or if not counted.
    pub shared_with: Option<String>,
    /// First of the objects.
    pub object: Addr,
    /// Address that it points at.
    pub block: Addr,
}

impl HeldTotal {
    /// Bytes of both.
    pub fn bytes(&self) -> u64 {
        self.malloc.bytes.saturating_add(self.mmap.bytes)
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &HeldTotal) {
        self.malloc.merge(other.malloc);
        self.mmap.merge(other.mmap);
    }

    /// What is left without `part`.
    pub(super) fn without(&self, part: &HeldTotal) -> HeldTotal {
        HeldTotal { malloc: self.malloc.without(part.malloc), mmap: self.mmap.without(part.mmap) }
    }
}

impl HolderRow {
    /// Type and field as one name.
    pub(super) fn place(&self) -> String {
        let name = self.name.as_ref().map_or_else(|| "?".into(), Name::shown);
        match &self.field {
            Some(field) => format!("{name}.{}", field.shown()),
            None => name,
        }
    }
}

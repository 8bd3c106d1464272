use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{BufferMemory, ChunkSum, Name};

/// `holders`: types whose objects point at native memory.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HoldersReport {
    /// Types and their fields, by bytes.
    pub holders: Vec<HolderRow>,
    /// Number of rows not listed.
    pub more: u64,
    /// Native memory that objects point at; each block counts once.
    pub total: HeldTotal,
    /// Native memory that objects own, by type: direct and mapped buffers. malloc blocks among it are in `total` too.
    pub buffers: Vec<OwnedRow>,
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

/// Native memory. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
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
    /// malloc blocks reachable from these blocks, including them. Other objects may reach them too. `null` if not
    /// counted.
    pub reaches: Option<ChunkSum>,
    /// First of the objects.
    pub object: Addr,
    /// Address that it points at.
    pub block: Addr,
}

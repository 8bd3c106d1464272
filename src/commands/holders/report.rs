use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{BufferMemory, ChunkSum, Name};

/// `holders`: types whose objects point at native memory.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HoldersReport {
    /// Types and their fields, those first that hold most bytes.
    pub holders: Vec<HolderRow>,
    /// Rows that are not listed.
    pub more: u64,
    /// Native memory that any object points at: each block once.
    pub total: HeldTotal,
    /// Native memory that objects are known to own, by type: direct and mapped buffers. Blocks of malloc among it are
    /// in `total` too.
    pub buffers: Vec<OwnedRow>,
}

/// Native memory that objects of one type own. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OwnedRow {
    /// The type.
    #[serde(rename = "type")]
    pub name: Name,
    /// The field that leads to the memory.
    pub field: Name,
    /// Where the memory came from.
    pub memory: BufferMemory,
    /// Objects that own any.
    pub objects: u64,
    /// Their memory.
    pub bytes: u64,
    /// The one that owns most.
    pub object: Addr,
}

/// Native memory. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct HeldTotal {
    /// Blocks of malloc, with their headers.
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
    /// The field; `null` for elements of an array.
    pub field: Option<Name>,
    /// Objects that point at any.
    pub objects: u64,
    /// Blocks of malloc that they point at, with their headers.
    pub malloc: ChunkSum,
    /// The blocks by their size, for whom the library tells.
    #[serde(skip)]
    pub sizes: BTreeMap<u64, ChunkSum>,
    /// Anonymous mappings that they point at.
    pub mmap: ChunkSum,
    /// Blocks of malloc that can be reached from these blocks, them included;
    /// others may reach them too. `null` where it was not counted.
    pub reaches: Option<ChunkSum>,
    /// The first of the objects.
    pub object: Addr,
    /// What it points at.
    pub block: Addr,
}

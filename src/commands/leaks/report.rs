use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ChunkSum, ClusterRow, NativeHeldRow};

/// `leaks`: used malloc blocks that no pointer reaches.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LeaksReport {
    /// Unreachable blocks.
    pub leaked: ChunkSum,
    /// Unreachable blocks that no other unreachable block points at.
    pub direct: ChunkSum,
    /// Reachable blocks.
    pub reachable: ChunkSum,
    /// All used blocks.
    pub used: ChunkSum,
    /// Unreachable blocks of equal size and content, by bytes.
    pub clusters: Vec<ClusterRow>,
    /// Number of all clusters, including those beyond the limit.
    pub clusters_total: u64,
    /// Groups of unreachable blocks that lead to each other, most bytes first: trees, lists and cycles.
    pub groups: Vec<NativeHeldRow>,
    /// Unreachable blocks by arena and address, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<LeakedRow>>,
    /// Bytes outside malloc heaps that were searched for pointers.
    pub scanned: u64,
    /// Whether all of that memory was in the core. Missing memory may contain pointers.
    pub complete: bool,
}

/// An unreachable block.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LeakedRow {
    /// Address that malloc returned.
    pub address: Addr,
    /// Size of its chunk in bytes.
    pub size: u64,
    /// Whether no other unreachable block points at it.
    pub direct: bool,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ChunkSum, ClusterRow};

/// `leaks`: used blocks of malloc that no pointer reaches.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LeaksReport {
    /// Blocks that nothing reaches.
    pub leaked: ChunkSum,
    /// Of those, the ones that no other leaked block points at.
    pub direct: ChunkSum,
    /// Blocks that something reaches.
    pub reachable: ChunkSum,
    /// All used blocks: leaked and reachable.
    pub used: ChunkSum,
    /// Leaked blocks that are alike, the most bytes first.
    pub clusters: Vec<ClusterRow>,
    /// Number of all clusters, also those beyond the limit.
    pub clusters_total: u64,
    /// Leaked blocks, by arena and address, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<LeakedRow>>,
    /// Bytes of memory outside malloc's heaps that were looked through for pointers.
    pub scanned: u64,
    /// Whether all of it was in the core: what was not dumped may hold pointers.
    pub complete: bool,
}

/// A leaked block.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LeakedRow {
    /// What malloc returned.
    pub address: Addr,
    /// Size of its chunk.
    pub size: u64,
    /// Whether no other leaked block points at it.
    pub direct: bool,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{ConditionRow, KindOrTotal};
use crate::targets::Producer;

/// `diff`: compares two cores, samples of recordings, or a core with an earlier `summary --json`. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffReport {
    /// The older core.
    pub old: DiffSide,
    /// The newer core.
    pub new: DiffSide,
    /// Kinds, by change of size.
    pub kinds: Vec<DiffRow>,
    /// Sums over all kinds.
    pub total: DiffRow,
    /// Number of threads.
    pub threads: CountDelta,
    /// Types on managed heaps whose count or size changed, by change of size. `null` if a core has no such heap or is
    /// given by its summary only. Values that a recording does not list are `null`.
    pub types: Option<Vec<TypeDelta>>,
    /// Sizes of used malloc blocks whose number changed, by change of bytes. `null` if a core has no malloc heap, if
    /// the allocators differ, or if a core is given by its summary only. Values that a recording does not list are
    /// `null`.
    pub malloc: Option<Vec<SizeDelta>>,
    /// Results of the `--fail-if` conditions.
    pub conditions: Vec<ConditionRow>,
}

/// A number in both cores.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountDelta {
    /// In the older core.
    pub old: u64,
    /// In the newer core.
    pub new: u64,
    /// Change.
    pub delta: i64,
}

/// A type in both cores, matched by name.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TypeDelta {
    /// Name of the type.
    #[serde(rename = "type")]
    pub name: String,
    /// Objects in the older core.
    pub old_count: Option<u64>,
    /// Objects in the newer core.
    pub new_count: Option<u64>,
    /// Change in the number of objects.
    pub delta_count: Option<i64>,
    /// Bytes in the older core.
    pub old: Option<u64>,
    /// Bytes in the newer core.
    pub new: Option<u64>,
    /// Change in bytes.
    pub delta: Option<i64>,
}

/// Used blocks of one size in both cores. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SizeDelta {
    /// Size of the chunk.
    pub size: u64,
    /// Whether each has a separate mapping.
    pub mmapped: bool,
    /// Blocks in the older core.
    pub old_count: Option<u64>,
    /// Blocks in the newer core.
    pub new_count: Option<u64>,
    /// Change in the number of blocks.
    pub delta_count: Option<i64>,
    /// Bytes in the older core.
    pub old: Option<u64>,
    /// Bytes in the newer core.
    pub new: Option<u64>,
    /// Change in bytes.
    pub delta: Option<i64>,
}

/// One of the two cores, or a sample of a recording: `FILE@N`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffSide {
    /// Path as given.
    pub path: String,
    /// Process id.
    pub pid: Option<u32>,
    /// Producer.
    pub producer: Producer,
    /// Number of threads.
    pub threads: usize,
    /// Whether the file is truncated.
    pub truncated: bool,
}

/// A kind in both cores.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DiffRow {
    /// The kind, or `total`.
    pub kind: KindOrTotal,
    /// Regions in the older core.
    pub old_count: u64,
    /// Regions in the newer core.
    pub new_count: u64,
    /// Change in the number of regions.
    pub delta_count: i64,
    /// Address space in the older core.
    pub old: u64,
    /// Address space in the newer core.
    pub new: u64,
    /// Change in bytes.
    pub delta: i64,
    /// Bytes that the older core contains.
    pub old_in_core: u64,
    /// Bytes that the newer core contains.
    pub new_in_core: u64,
    /// Change in bytes.
    pub delta_in_core: i64,
    /// Resident bytes in the older core. `null` if unknown, as for a core without `--smaps`.
    pub old_rss: Option<u64>,
    /// Resident bytes in the newer core.
    pub new_rss: Option<u64>,
    /// Change in resident bytes.
    pub delta_rss: Option<i64>,
}

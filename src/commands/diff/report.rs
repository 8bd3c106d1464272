use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{ConditionRow, KindOrTotal};
use crate::targets::Producer;

/// `diff`: two cores side by side, looks of recordings among them, or a core beside what `summary --json` said of
/// an older one. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffReport {
    /// The older core.
    pub old: DiffSide,
    /// The newer core.
    pub new: DiffSide,
    /// Kinds, by the change of their size.
    pub kinds: Vec<DiffRow>,
    /// All kinds together.
    pub total: DiffRow,
    /// Number of threads.
    pub threads: CountDelta,
    /// Types on managed heaps whose count or size changed, by the change of
    /// their size; `null` where one of the cores has no such heap, or is told by its
    /// summary only. What a recording does not list on its side is `null` in a row.
    pub types: Option<Vec<TypeDelta>>,
    /// Sizes of used blocks of malloc whose number changed, by the change of their
    /// bytes; `null` where one of the cores has no heap of malloc, they have different ones, or one is told
    /// by its summary only. What a recording does not list on its side is `null` in a row.
    pub malloc: Option<Vec<SizeDelta>>,
    /// What `--fail-if` asked for.
    pub conditions: Vec<ConditionRow>,
}

/// A number in both cores.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CountDelta {
    /// In the older.
    pub old: u64,
    /// In the newer.
    pub new: u64,
    /// Its change.
    pub delta: i64,
}

/// One type in both cores, by its name.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TypeDelta {
    /// Its name.
    #[serde(rename = "type")]
    pub name: String,
    /// Objects in the older.
    pub old_count: Option<u64>,
    /// Objects in the newer.
    pub new_count: Option<u64>,
    /// Their change.
    pub delta_count: Option<i64>,
    /// Bytes in the older.
    pub old: Option<u64>,
    /// Bytes in the newer.
    pub new: Option<u64>,
    /// Their change.
    pub delta: Option<i64>,
}

/// Used blocks of one size in both cores. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SizeDelta {
    /// Size of the chunk.
    pub size: u64,
    /// Whether each has a mapping of its own.
    pub mmapped: bool,
    /// Blocks in the older.
    pub old_count: Option<u64>,
    /// Blocks in the newer.
    pub new_count: Option<u64>,
    /// Their change.
    pub delta_count: Option<i64>,
    /// Bytes in the older.
    pub old: Option<u64>,
    /// Bytes in the newer.
    pub new: Option<u64>,
    /// Their change.
    pub delta: Option<i64>,
}

/// One of the two cores, or looks of a recording: `FILE@N`.
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
    /// Whether the file is cut off.
    pub truncated: bool,
}

/// One kind in both cores.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DiffRow {
    /// The kind, or `total`.
    pub kind: KindOrTotal,
    /// Regions in the older.
    pub old_count: u64,
    /// Regions in the newer.
    pub new_count: u64,
    /// Their change.
    pub delta_count: i64,
    /// Bytes in the older.
    pub old: u64,
    /// Bytes in the newer.
    pub new: u64,
    /// Their change.
    pub delta: i64,
    /// Bytes the older core holds.
    pub old_in_core: u64,
    /// Bytes the newer core holds.
    pub new_in_core: u64,
    /// Their change.
    pub delta_in_core: i64,
    /// Bytes that were in RAM in the older; `null` where that is not known: of a core without `--smaps`.
    pub old_rss: Option<u64>,
    /// Bytes that were in RAM in the newer.
    pub new_rss: Option<u64>,
    /// Their change.
    pub delta_rss: Option<i64>,
}

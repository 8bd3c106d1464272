use schemars::JsonSchema;
use serde::Serialize;

use crate::map::Kind;
use crate::report::{ConditionRow, Finding};

/// `summary`: where the memory is, by kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SummaryReport {
    /// Kinds, biggest first by what of them is in the core, then by size; reserved address space (NoAccess,
    /// GCHeapReserve) last.
    pub kinds: Vec<KindRow>,
    /// Their sums.
    pub total: TotalRow,
    /// What the sums must equal.
    pub base: BaseRow,
    /// How the kind Malloc divides; `null` where there is none.
    pub malloc: Option<MallocSplit>,
    /// What a reader should notice.
    pub findings: Vec<Finding>,
    /// What `--fail-if` asked for.
    pub conditions: Vec<ConditionRow>,
}

/// How the bytes of kind Malloc divide: the four add up to the kind's size. From
/// malloc's own lists and counts; `malloc` walks the chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MallocSplit {
    /// In chunks that the program holds, headers and all.
    pub used: u64,
    /// In free chunks, and what was given back and is still mapped.
    pub free: u64,
    /// malloc's own structures, and padding.
    pub overhead: u64,
    /// Of heaps whose lists can't be followed in this core.
    pub unknown: u64,
}

/// One kind. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Number of regions.
    pub count: u64,
    /// Address space.
    pub size: u64,
    /// Of that, held by the core.
    pub in_core: u64,
    /// Size of the largest region.
    pub largest: u64,
    /// Held by the core in whole 4 KiB pages that are all zero; `null` if not scanned.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
}

/// Sums over all kinds. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TotalRow {
    /// Number of regions.
    pub count: u64,
    /// Address space.
    pub size: u64,
    /// Held by the core.
    pub in_core: u64,
    /// In pages that are all zero.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
}

/// All that is mapped, counted apart from the map. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BaseRow {
    /// Where mappings are told: PT_LOAD and NT_FILE of a core, /proc/PID/maps of a process that runs.
    pub source: &'static str,
    /// Address space.
    pub size: u64,
    /// Held by the core.
    pub in_core: u64,
}

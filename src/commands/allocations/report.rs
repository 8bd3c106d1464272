use schemars::JsonSchema;
use serde::Serialize;

use crate::report::FrameRow;

/// `allocations`: the heap profile that a runtime samples, by stack.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AllocationsReport {
    /// Stacks that allocated, those with most estimated bytes in use first.
    pub sites: Vec<AllocationSiteRow>,
    /// Sum over all sites.
    pub total: AllocationCountsRow,
    /// Bytes between samples. `null` without a profile.
    pub rate: Option<u64>,
    /// Whether this rate is the runtime's default, and assumed.
    pub rate_is_default: bool,
}

/// Objects that one stack allocated.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AllocationSiteRow {
    /// As the runtime sampled them.
    pub sampled: AllocationCountsRow,
    /// Estimate of all objects, as pprof makes it.
    pub scaled: AllocationCountsRow,
    /// Innermost function of the program. `null` if there is none.
    pub site: Option<String>,
    /// File and line of it, as `file:line`.
    pub position: Option<String>,
    /// Frames of the allocation, innermost first.
    pub frames: Vec<FrameRow>,
}

/// Numbers of objects and bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct AllocationCountsRow {
    /// Objects in use as of the end of the last collection.
    pub inuse_objects: u64,
    /// Their bytes.
    pub inuse_bytes: u64,
    /// Objects that were ever allocated.
    pub alloc_objects: u64,
    /// Their bytes.
    pub alloc_bytes: u64,
}

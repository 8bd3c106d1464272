use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::report::Generation;

/// `heap`: the managed heap, as SOS `eeheap` tells it. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapReport {
    /// The collector; `null` where the process has no runtime that can be read.
    pub gc: Option<GcRow>,
    /// Segments or regions, by heap, generation and address.
    pub segments: Vec<SegmentRow>,
    /// Committed by all segments; `null` where there is no collector.
    pub committed: Option<u64>,
    /// From the first object to the end of allocation, over all segments.
    pub allocated: Option<u64>,
    /// Loader heaps, where `--loader` asked for them.
    pub loader: Option<Vec<LoaderHeapRow>>,
}

/// The collector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GcRow {
    /// Version of the runtime.
    pub version: String,
    /// Server GC.
    pub server: bool,
    /// Number of GC heaps.
    pub heaps: u64,
    /// Works by regions (7 and later) and not by segments.
    pub regions: bool,
    /// The dump was taken while a collection moved things.
    pub in_progress: bool,
}

/// A segment or region.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SegmentRow {
    /// Number of its heap.
    pub heap: u32,
    /// Which part of the heap it is.
    pub generation: Generation,
    /// Its heap_segment struct.
    pub address: Addr,
    /// First object.
    pub start: Addr,
    /// End of objects.
    pub end: Addr,
    /// End of committed memory.
    pub committed_end: Addr,
    /// End of what is reserved.
    pub reserved_end: Addr,
    /// `end` − `start`.
    pub allocated: u64,
    /// Committed memory.
    pub committed: u64,
}

/// One heap of a loader allocator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoaderHeapRow {
    /// Whose it is.
    pub allocator: String,
    /// Address of the loader allocator (or of the JIT's manager).
    pub allocator_address: Addr,
    /// Kind of heap.
    pub kind: Kind,
    /// Committed bytes of all blocks.
    pub size: u64,
    /// Reserved and not committed in blocks the heap has left behind.
    pub wasted: u64,
    /// Its blocks.
    pub blocks: Vec<LoaderBlockRow>,
}

/// A block of a loader heap.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoaderBlockRow {
    /// Where it begins.
    pub start: Addr,
    /// Reserved.
    pub size: u64,
    /// Committed: mapped with any access.
    pub committed: u64,
}

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::report::Generation;

/// `heap`: the managed heap, as SOS `eeheap` shows it. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeapReport {
    /// The collector. `null` if the process has no readable runtime.
    pub gc: Option<GcRow>,
    /// Segments or regions, by heap, generation and address.
    pub segments: Vec<SegmentRow>,
    /// Committed bytes of all segments. `null` without a collector.
    pub committed: Option<u64>,
    /// Committed bytes of regions and segments without objects, which the collector keeps or is about to return. They
    /// are not in `segments`. With `committed`, they are what the collector has committed for objects.
    pub free_committed: Option<u64>,
    /// Bytes from the first object to the end of allocation, over all segments.
    pub allocated: Option<u64>,
    /// Figures of a collector that is not .NET's, with the runtime's own names: those of `runtime.MemStats` for Go.
    pub stats: Option<BTreeMap<&'static str, u64>>,
    /// Loader heaps, with `--loader`.
    pub loader: Option<Vec<LoaderHeapRow>>,
    /// Isolated heaps of a runtime that has several (V8), with their spaces. Empty for others.
    pub isolates: Vec<IsolateRow>,
    /// Runtimes of the process whose heap segments are not read. They are missing from `segments`.
    pub unread: Vec<String>,
}

/// The collector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GcRow {
    /// Version of the runtime.
    pub version: String,
    /// Whether it is the server GC.
    pub server: bool,
    /// Number of GC heaps.
    pub heaps: u64,
    /// Whether it uses regions (.NET 7 and newer) instead of segments.
    pub regions: bool,
    /// Whether the dump was taken during a garbage collection.
    pub in_progress: bool,
}

/// An isolated heap, with a thread of its own.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct IsolateRow {
    /// Name: its part in the process.
    pub name: String,
    /// Address of its heap.
    pub address: Addr,
    /// System thread that runs it. `null` if unknown.
    pub tid: Option<u32>,
    /// Its spaces. Spaces without pages are left out.
    pub spaces: Vec<SpaceRow>,
    /// Buffers outside of the heap that its objects own, each counted once.
    pub array_buffers: ArrayBuffersRow,
    /// Bytes reserved for its code and not used. They cost no memory.
    pub code_reserve: u64,
}

/// A space of an isolated heap.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SpaceRow {
    /// Name in the runtime's words.
    pub name: &'static str,
    /// Bytes of its pages.
    pub size: u64,
    /// Bytes of its objects.
    pub used: u64,
}

/// Buffers outside of a heap.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct ArrayBuffersRow {
    /// Number of buffers.
    pub count: u64,
    /// Bytes of the buffers.
    pub bytes: u64,
}

/// A segment or region.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SegmentRow {
    /// Index of its heap.
    pub heap: u32,
    /// Generation.
    pub generation: Generation,
    /// Address of its heap_segment struct.
    pub address: Addr,
    /// First object.
    pub start: Addr,
    /// End of objects.
    pub end: Addr,
    /// End of committed memory.
    pub committed_end: Addr,
    /// End of reserved memory.
    pub reserved_end: Addr,
    /// `end` − `start`.
    pub allocated: u64,
    /// Committed bytes.
    pub committed: u64,
}

/// A heap of a loader allocator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoaderHeapRow {
    /// Name of the allocator.
    pub allocator: String,
    /// Address of the loader allocator, or of the JIT's code manager.
    pub allocator_address: Addr,
    /// Kind of heap.
    pub kind: Kind,
    /// Committed bytes of all blocks.
    pub size: u64,
    /// Reserved but uncommitted bytes in blocks that the heap no longer fills.
    pub wasted: u64,
    /// Its blocks.
    pub blocks: Vec<LoaderBlockRow>,
}

/// A block of a loader heap.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoaderBlockRow {
    /// Start address.
    pub start: Addr,
    /// Reserved bytes.
    pub size: u64,
    /// Committed bytes: mapped with any access permission.
    pub committed: u64,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::{AllocatorName, ChunkRow, ChunkSum, ClusterRow, Finding, LostRow, SizeClassRow};

/// `malloc`: heaps of the C library's malloc and their blocks, by arena (glibc) or size class (musl).
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MallocReport {
    /// Allocators of the process. The first is the one that serves allocations, as far as known.
    pub allocators: Vec<AllocatorRow>,
    /// Parameters of glibc's malloc. `null` if not found.
    pub params: Option<MallocParamsRow>,
    /// Arenas of glibc's malloc, main arena first.
    pub arenas: Vec<ArenaRow>,
    /// Chunks with a separate mapping.
    pub mmapped: MmappedRow,
    /// musl's malloc. `null` if the process has none.
    pub mallocng: Option<MallocngRow>,
    /// Heaps of other allocators whose blocks are read (jemalloc).
    pub others: Vec<OtherHeapRow>,
    /// Sums over arenas, groups, mmapped chunks and the heaps of other allocators.
    pub total: MallocTotal,
    /// Sums of the C library's malloc alone: `total` without the heaps of other allocators.
    pub libc: MallocTotal,
    /// Chunks by size class (powers of two), largest first.
    pub sizes: Vec<SizeClassRow>,
    /// Used blocks by the category that a managed runtime recorded. `null` if none recorded any.
    pub categories: Option<CategoriesRow>,
    /// obmalloc, CPython's allocator for blocks up to 512 bytes. Its arenas are in addition to malloc's and in no other
    /// sum here. `null` if there is none.
    pub pymalloc: Option<SmallBlocksRow>,
    /// Used blocks of equal size and content, by bytes.
    pub clusters: Vec<ClusterRow>,
    /// Number of all clusters, including those beyond the limit.
    pub clusters_total: u64,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Thread caches.
    pub tcaches: Vec<TcacheRow>,
    /// Bytes that could not be walked.
    pub lost: LostRow,
    /// Every chunk by arena and address, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<ChunkRow>>,
    /// Number of all chunks, including those beyond the limit, if chunks were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks_total: Option<u64>,
}

impl MallocReport {
    /// Returns the bytes of used blocks of one allocator. `None` is the C library's malloc.
    pub fn used_bytes(&self, allocator: Option<AllocatorName>) -> u64 {
        match allocator {
            None => self.libc.used_bytes,
            Some(name) => {
                let of = self.others.iter().filter(|heap| heap.name == name.name());
                of.map(|heap| heap.used.bytes).fold(0, u64::saturating_add)
            }
        }
    }
}

/// An allocator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AllocatorRow {
    /// Name of the allocator.
    pub name: AllocatorName,
    /// Module that contains it.
    pub module: String,
    /// The evidence for it.
    pub evidence: String,
    /// Whether its blocks are counted here.
    pub walked: bool,
}

/// A runtime's allocator for small blocks: arenas of pools, pools of blocks of one size. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SmallBlocksRow {
    /// Name of the allocator.
    pub name: &'static str,
    /// Number of arenas.
    pub arenas: u64,
    /// Size of an arena.
    pub arena_size: u64,
    /// Total size of all arenas.
    pub committed: u64,
    /// Size of a pool.
    pub pool_size: u64,
    /// Number of pools with used blocks.
    pub pools: u64,
    /// Number of free pools, including never used ones.
    pub free_pools: u64,
    /// Number of pools whose header is not in the core or invalid, or inconsistent with its list of free blocks.
    pub lost_pools: u64,
    /// Bytes in used blocks.
    pub bytes_used: u64,
    /// Bytes in free blocks of pools with used blocks.
    pub bytes_free: u64,
    /// Bytes in free pools.
    pub bytes_free_pools: u64,
    /// Bytes of pool headers.
    pub bytes_headers: u64,
    /// Unusable bytes at the ends of pools and arenas.
    pub bytes_lost: u64,
    /// Blocks by size, smallest first.
    pub classes: Vec<SmallClassRow>,
}

/// Blocks of one size.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct SmallClassRow {
    /// Size of a block in bytes.
    pub size: u64,
    /// Number of pools.
    pub pools: u64,
    /// Number of used blocks.
    pub blocks_used: u64,
    /// Number of free blocks.
    pub blocks_free: u64,
}

/// Used blocks by the category that a managed runtime recorded in them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CategoriesRow {
    /// Source of the categories: `HotSpot 21.0.4+7, Native Memory Tracking`.
    pub whose: String,
    /// Categories, by bytes.
    pub categories: Vec<CategoryRow>,
    /// Used blocks without a category: of other libraries, or allocated before the runtime began to record.
    pub others: ChunkSum,
}

/// Blocks of one category. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CategoryRow {
    /// The runtime's number of the category.
    pub number: u8,
    /// Name of the category, as the runtime has it: `GC`.
    pub name: String,
    /// malloc chunks, including all headers.
    pub blocks: ChunkSum,
    /// Requested bytes, as the runtime counts them.
    pub asked: u64,
}

/// Fields of `mp_`. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MallocParamsRow {
    /// Address of the struct.
    pub address: Addr,
    /// Number of chunks with a separate mapping.
    pub n_mmaps: u64,
    /// Peak of `n_mmaps`.
    pub max_n_mmaps: u64,
    /// Bytes of these mappings.
    pub mmapped_mem: u64,
    /// Peak of `mmapped_mem`.
    pub max_mmapped_mem: u64,
    /// Requests of at least this size get a separate mapping.
    pub mmap_threshold: u64,
    /// A free top chunk larger than this is returned to the system.
    pub trim_threshold: u64,
}

/// Free chunks by the list or cache that contains them, without the top chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FreeRow {
    /// In thread caches.
    pub tcache: ChunkSum,
    /// In fastbins.
    pub fastbin: ChunkSum,
    /// Freed, but not yet sorted into a bin.
    pub unsorted: ChunkSum,
    /// In bins of one size.
    pub smallbin: ChunkSum,
    /// In bins of a size range.
    pub largebin: ChunkSum,
    /// Free according to the next chunk, but in no list.
    pub unlisted: ChunkSum,
}

/// An arena. Sizes in bytes. `committed` is the sum of `used_bytes`, `free_bytes`, `top`, `trimmed`, `overhead`,
/// `foreign` and `unknown`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArenaRow {
    /// Address of its `malloc_state`.
    pub address: Addr,
    /// Whether it is the main arena, which uses the break.
    pub main: bool,
    /// Confidence that it is an arena.
    pub confidence: Confidence,
    /// Number of its heaps.
    pub heaps: u64,
    /// Committed memory.
    pub committed: u64,
    /// Memory taken from the system, by its own counter. `null` if it has none.
    pub system_mem: Option<u64>,
    /// Peak of `system_mem`.
    pub max_system_mem: Option<u64>,
    /// Number of threads that use it. `null` before glibc 2.23.
    pub attached_threads: Option<u64>,
    /// Ids of those threads whose TLS is in the core.
    pub tids: Vec<u32>,
    /// Number of used chunks.
    pub used: u64,
    /// Bytes of used chunks.
    pub used_bytes: u64,
    /// Number of free chunks, without the top chunk.
    pub free: u64,
    /// Bytes of free chunks, without the top chunk.
    pub free_bytes: u64,
    /// Free chunks by list or cache.
    pub free_by: FreeRow,
    /// Size of the top chunk.
    pub top: u64,
    /// Bytes above the top chunk that were released but are still mapped.
    pub trimmed: u64,
    /// Bytes of malloc's own structures and end markers.
    pub overhead: u64,
    /// Bytes that other users of sbrk allocated (main arena only).
    pub foreign: u64,
    /// Bytes that are not in the core or damaged, and chunks whose successor is not in the core.
    pub unknown: u64,
    /// Bytes of `unknown` that no chunk covers.
    pub lost: u64,
    /// `free_bytes` as a share of used and free bytes, 0 to 1. `null` if there are none.
    pub fragmentation: Option<f64>,
    /// Size of the largest free chunk, without the top chunk.
    pub largest_free: u64,
    /// Bytes that `malloc_trim(0)` would return to the system: whole pages in free chunks outside thread caches, and
    /// the top chunk of the main arena. Pages that are not resident do not count; in a core, pages that are all zero.
    pub trimmable: u64,
    /// Remainder of the last split small block.
    pub last_remainder: Option<Addr>,
}

/// Chunks with a separate mapping. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct MmappedRow {
    /// Number of chunks.
    pub count: u64,
    /// Bytes of their mappings.
    pub bytes: u64,
    /// Freed chunks among them, in a thread cache (glibc 2.43 and newer).
    pub free: u64,
    /// Whether number and bytes match malloc's counters. `null` if the counters were not found.
    pub complete: Option<bool>,
}

/// musl's malloc (mallocng): groups of slots of one size. Blocks with a separate mapping are in `mmapped`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MallocngRow {
    /// Address of `malloc_context` in libc's data.
    pub context: Addr,
    /// Number of meta areas, one page each.
    pub areas: u64,
    /// Number of groups, including those of a single block.
    pub groups: u64,
    /// Number of groups in a slot of a larger group.
    pub nested: u64,
    /// Number of groups in unused memory at the ends of module data.
    pub donated: u64,
    /// Whether the number of slots of each class matches its counter.
    pub complete: bool,
    /// Number of used blocks with an invalid header.
    pub damaged: u64,
    /// Slots by class, smallest first.
    pub classes: Vec<GroupClassRow>,
}

/// The heap of an allocator that is not the C library's. Sizes in bytes; blocks count with the size of their class.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OtherHeapRow {
    /// Name of the allocator.
    pub name: String,
    /// Bytes of all extents.
    pub committed: u64,
    /// Number of extents in use, including slabs.
    pub extents: u64,
    /// Bytes of extents in use.
    pub active: u64,
    /// Bytes of extents whose structures are inconsistent or not in the core. Whether they are in use is unknown.
    pub unknown: u64,
    /// Used blocks.
    pub used: ChunkSum,
    /// Free blocks in slabs, including cached ones.
    pub free: ChunkSum,
    /// Free blocks in thread caches.
    pub cached: ChunkSum,
    /// Number of threads whose cache was not found; blocks in those caches count as used.
    pub without_cache: u64,
}

/// Slots of one size class of mallocng. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupClassRow {
    /// Number of the class.
    pub class: u64,
    /// Size of a slot, including 4 bytes of header.
    pub slot: u64,
    /// Number of groups.
    pub groups: u64,
    /// Number of used slots.
    pub used: u64,
    /// Bytes of used slots.
    pub used_bytes: u64,
    /// Requested bytes in used slots.
    pub asked: u64,
    /// Number of free slots, including never used ones.
    pub free: u64,
    /// Bytes of free slots.
    pub free_bytes: u64,
}

/// Sums. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MallocTotal {
    /// Committed memory.
    pub committed: u64,
    /// Number of used chunks.
    pub used: u64,
    /// Bytes of used chunks.
    pub used_bytes: u64,
    /// Number of free chunks, without top chunks.
    pub free: u64,
    /// Bytes of free chunks, without top chunks.
    pub free_bytes: u64,
    /// Bytes of top chunks.
    pub top: u64,
    /// Bytes that were released but are still mapped; for jemalloc, bytes of free extents.
    pub trimmed: u64,
    /// Bytes of structures, markers and padding.
    pub overhead: u64,
    /// Bytes that other users of sbrk allocated.
    pub foreign: u64,
    /// Bytes that are not in the core or damaged.
    pub unknown: u64,
    /// Bytes that `malloc_trim(0)` would return to the system.
    pub trimmable: u64,
    /// Requested bytes of used blocks. `null` where malloc does not record it (musl does).
    pub asked: Option<u64>,
}

/// A thread cache.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TcacheRow {
    /// Address of the struct.
    pub address: Addr,
    /// Its thread. `null` if no thread's TLS points to it.
    pub tid: Option<u32>,
    /// First glibc version with this layout, such as `2.26`.
    pub since: &'static str,
    /// Number of blocks in it.
    pub count: u64,
    /// Number of its lists that do not end correctly.
    pub broken: u64,
}

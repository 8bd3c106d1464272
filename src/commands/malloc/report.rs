use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::{AllocatorName, ChunkRow, ChunkSum, ClusterRow, Finding, LostRow, SizeClassRow};

/// `malloc`: heaps of the C library's malloc, and the blocks in them: of glibc's arena by arena, of musl's by size class.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MallocReport {
    /// Allocators of the process; blocks come from the first, as far as is known.
    pub allocators: Vec<AllocatorRow>,
    /// malloc's own parameters; `null` where they were not found.
    pub params: Option<MallocParamsRow>,
    /// Arenas of glibc's malloc, the main one first.
    pub arenas: Vec<ArenaRow>,
    /// Chunks with a mapping of their own.
    pub mmapped: MmappedRow,
    /// musl's malloc; `null` where the process has none.
    pub mallocng: Option<MallocngRow>,
    /// Heaps of other allocators whose blocks are known (jemalloc's).
    pub others: Vec<OtherHeapRow>,
    /// Sums over arenas, groups, mmapped chunks and the heaps of other allocators.
    pub total: MallocTotal,
    /// Chunks by size: powers of two, the biggest first.
    pub sizes: Vec<SizeClassRow>,
    /// Used blocks by what a managed runtime noted that they are for; `null` where none notes anything.
    pub categories: Option<CategoriesRow>,
    /// obmalloc, CPython's own allocator of blocks up to 512 bytes: its arenas are beside malloc's, and in no other sum
    /// here; `null` where there is none.
    pub pymalloc: Option<SmallBlocksRow>,
    /// Used blocks that are alike, the most bytes first.
    pub clusters: Vec<ClusterRow>,
    /// Number of all clusters, also those beyond the limit.
    pub clusters_total: u64,
    /// What a reader should notice.
    pub findings: Vec<Finding>,
    /// The threads' caches.
    pub tcaches: Vec<TcacheRow>,
    /// Bytes that no chunk covers.
    pub lost: LostRow,
    /// Every chunk, by arena and address, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<ChunkRow>>,
    /// Number of all chunks, also those beyond the limit, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks_total: Option<u64>,
}

/// One allocator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AllocatorRow {
    /// Which one.
    pub name: AllocatorName,
    /// What it is in.
    pub module: String,
    /// How it is known.
    pub evidence: String,
    /// Whether its blocks are counted here.
    pub walked: bool,
}

/// An allocator of small blocks that a runtime has of its own: arenas of pools, pools of blocks of one size. Sizes in
/// bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SmallBlocksRow {
    /// What the runtime calls it.
    pub name: &'static str,
    /// Arenas.
    pub arenas: u64,
    /// Size of an arena.
    pub arena_size: u64,
    /// Size of all arenas.
    pub committed: u64,
    /// Size of a pool.
    pub pool_size: u64,
    /// Pools with blocks.
    pub pools: u64,
    /// Pools that are free, or were never used.
    pub free_pools: u64,
    /// Pools whose header is not in the core or makes no sense, or whose list of free blocks does not agree with it.
    pub lost_pools: u64,
    /// Blocks in use.
    pub bytes_used: u64,
    /// Free blocks, in pools that others keep.
    pub bytes_free: u64,
    /// Free pools.
    pub bytes_free_pools: u64,
    /// Headers of pools with blocks.
    pub bytes_headers: u64,
    /// What is left at the ends of pools and arenas.
    pub bytes_lost: u64,
    /// Blocks by size, the smallest first.
    pub classes: Vec<SmallClassRow>,
}

/// Blocks of one size.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct SmallClassRow {
    /// Bytes of a block.
    pub size: u64,
    /// Pools of them.
    pub pools: u64,
    /// Blocks in use.
    pub blocks_used: u64,
    /// Free blocks.
    pub blocks_free: u64,
}

/// Used blocks by what a managed runtime noted in them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CategoriesRow {
    /// Who notes it: `HotSpot 21.0.4+7, Native Memory Tracking`.
    pub whose: String,
    /// Most bytes first.
    pub categories: Vec<CategoryRow>,
    /// Used blocks without a note: of other libraries, and of the runtime before it began to note.
    pub others: ChunkSum,
}

/// Blocks for one thing. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CategoryRow {
    /// The runtime's number of it.
    pub number: u8,
    /// What it is, in the runtime's own words: `GC`.
    pub name: String,
    /// Chunks of malloc, with all headers.
    pub blocks: ChunkSum,
    /// Bytes that were asked for: what the runtime itself counts.
    pub asked: u64,
}

/// Fields of `mp_`. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MallocParamsRow {
    /// Where it is.
    pub address: Addr,
    /// Chunks with a mapping of their own.
    pub n_mmaps: u64,
    /// The most there were at a time.
    pub max_n_mmaps: u64,
    /// Bytes of these mappings.
    pub mmapped_mem: u64,
    /// The most there were at a time.
    pub max_mmapped_mem: u64,
    /// Requests from this size on get a mapping of their own.
    pub mmap_threshold: u64,
    /// A free top larger than this is given back.
    pub trim_threshold: u64,
}

/// Free chunks by where they are kept; the top is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FreeRow {
    /// In threads' caches.
    pub tcache: ChunkSum,
    /// In fastbins.
    pub fastbin: ChunkSum,
    /// Freed, not yet sorted into a bin.
    pub unsorted: ChunkSum,
    /// In bins of one size.
    pub smallbin: ChunkSum,
    /// In bins of a range of sizes.
    pub largebin: ChunkSum,
    /// Free by the chunk behind, but in no list.
    pub unlisted: ChunkSum,
}

/// One arena. Sizes in bytes. `committed` is the sum of `used_bytes`, `free_bytes`,
/// `top`, `trimmed`, `overhead`, `foreign` and `unknown`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArenaRow {
    /// Its `malloc_state`.
    pub address: Addr,
    /// Whether it is the process's first, on the break.
    pub main: bool,
    /// How sure it is one.
    pub confidence: Confidence,
    /// Heaps it consists of.
    pub heaps: u64,
    /// Memory it has.
    pub committed: u64,
    /// What it says it took from the system; `null` where it says nothing.
    pub system_mem: Option<u64>,
    /// The most it ever had.
    pub max_system_mem: Option<u64>,
    /// Number of threads that use it; `null` before glibc 2.23.
    pub attached_threads: Option<u64>,
    /// Those of them whose TLS is in the core.
    pub tids: Vec<u32>,
    /// Used chunks.
    pub used: u64,
    /// Their bytes.
    pub used_bytes: u64,
    /// Free chunks but the top.
    pub free: u64,
    /// Their bytes.
    pub free_bytes: u64,
    /// The same by where they are kept.
    pub free_by: FreeRow,
    /// The last, free chunk.
    pub top: u64,
    /// Given back to the system, still mapped, above the top.
    pub trimmed: u64,
    /// malloc's own structures and end marks.
    pub overhead: u64,
    /// Of the main arena: what others took from the break.
    pub foreign: u64,
    /// Not in the core or damaged, or chunks of which the next is not in the core.
    pub unknown: u64,
    /// Of `unknown`, bytes without any chunk.
    pub lost: u64,
    /// `free_bytes` as a share of used and free bytes, 0 to 1; `null` where there are none.
    pub fragmentation: Option<f64>,
    /// Largest free chunk but the top.
    pub largest_free: u64,
    /// What `malloc_trim(0)` would give back: whole pages in free chunks, threads'
    /// caches excepted, and of the main arena the top.
    pub trimmable: u64,
    /// The rest of the last small block that was split.
    pub last_remainder: Option<Addr>,
}

/// Chunks with a mapping of their own. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct MmappedRow {
    /// Number.
    pub count: u64,
    /// Of their mappings.
    pub bytes: u64,
    /// Of these, freed and in a thread's cache (from glibc 2.43 on).
    pub free: u64,
    /// Whether number and bytes are those that malloc counts; `null` where its
    /// counts were not found.
    pub complete: Option<bool>,
}

/// musl's malloc, mallocng: groups of slots of one size. Blocks with mappings of their own are in `mmapped`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MallocngRow {
    /// Its `malloc_context`, in libc's data.
    pub context: Addr,
    /// Areas of metas, a page each.
    pub areas: u64,
    /// Groups, with those of a single block.
    pub groups: u64,
    /// Of these, in a slot of a larger group.
    pub nested: u64,
    /// Of these, in what was left at the ends of modules' data.
    pub donated: u64,
    /// Whether there are as many slots of each class as it counts.
    pub complete: bool,
    /// Blocks in use whose header makes no sense.
    pub damaged: u64,
    /// Slots by class, the smallest first.
    pub classes: Vec<GroupClassRow>,
}

/// The heap of an allocator that is no C library's. Sizes in bytes. Sizes of blocks are those of its classes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OtherHeapRow {
    /// Which one.
    pub name: String,
    /// All its extents.
    pub committed: u64,
    /// Extents that are given out, or are slabs.
    pub extents: u64,
    /// Their bytes.
    pub active: u64,
    /// Blocks that the program holds.
    pub used: ChunkSum,
    /// Free ones in slabs, with those that threads keep.
    pub free: ChunkSum,
    /// Of the free ones, those that threads keep in their caches.
    pub cached: ChunkSum,
    /// Threads whose cache was not found: what is in these counts as used.
    pub without_cache: u64,
}

/// Slots of one size class of mallocng. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupClassRow {
    /// Its number.
    pub class: u64,
    /// Size of a slot, with 4 bytes of header.
    pub slot: u64,
    /// Groups.
    pub groups: u64,
    /// Slots in use.
    pub used: u64,
    /// Their bytes.
    pub used_bytes: u64,
    /// Bytes of these that were asked for.
    pub asked: u64,
    /// Free slots, with those never used.
    pub free: u64,
    /// Their bytes.
    pub free_bytes: u64,
}

/// Sums. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MallocTotal {
    /// All that is committed.
    pub committed: u64,
    /// Used chunks.
    pub used: u64,
    /// Their bytes.
    pub used_bytes: u64,
    /// Free chunks but tops.
    pub free: u64,
    /// Their bytes.
    pub free_bytes: u64,
    /// Tops.
    pub top: u64,
    /// Given back, still mapped; of jemalloc, extents that are free.
    pub trimmed: u64,
    /// Structures, marks, padding.
    pub overhead: u64,
    /// What others took from the break.
    pub foreign: u64,
    /// Not in the core or damaged.
    pub unknown: u64,
    /// What `malloc_trim(0)` would give back.
    pub trimmable: u64,
    /// Bytes of used blocks that the program asked for; `null` where malloc does not keep that (musl's does).
    pub asked: Option<u64>,
}

/// One thread's cache.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TcacheRow {
    /// The struct.
    pub address: Addr,
    /// Its thread; `null` where no thread's TLS points to it.
    pub tid: Option<u32>,
    /// First glibc with its form, as `2.26`.
    pub since: &'static str,
    /// Blocks in it.
    pub count: u64,
    /// Lists in it that do not end as they must.
    pub broken: u64,
}

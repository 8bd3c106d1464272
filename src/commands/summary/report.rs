use schemars::JsonSchema;
use serde::Serialize;

use crate::map::Kind;
use crate::report::{ConditionRow, Finding, Resident};

/// `summary`: where the memory went, by kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SummaryReport {
    /// Kinds, largest first: by `rss` if known, else by bytes in the core, then by size. Reserved address space
    /// (NoAccess, GCHeapReserve, StackGuard) comes last.
    pub kinds: Vec<KindRow>,
    /// Sums over all kinds.
    pub total: TotalRow,
    /// Totals that the sums must equal.
    pub base: BaseRow,
    /// Resident memory, and how it agrees with the kernel's own totals. `null` if unknown, as for a core without
    /// `--smaps`.
    pub rss: Option<RssReport>,
    /// How the kind Malloc divides. `null` if there is none.
    pub malloc: Option<MallocSplit>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Results of the `--fail-if` conditions.
    pub conditions: Vec<ConditionRow>,
}

/// How the bytes of kind Malloc divide. The four fields add up to the size of the kind. They come from malloc's own
/// lists and counters; the command `malloc` walks the chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MallocSplit {
    /// Bytes in used chunks, including headers.
    pub used: u64,
    /// Bytes in free chunks, and memory that was released but is still mapped.
    pub free: u64,
    /// Bytes of malloc's own structures and padding.
    pub overhead: u64,
    /// Bytes of heaps whose lists cannot be followed in this core.
    pub unknown: u64,
}

/// A kind of region. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Number of regions.
    pub count: u64,
    /// Address space.
    pub size: u64,
    /// Bytes of it in the core.
    pub in_core: u64,
    /// Size of the largest region.
    pub largest: u64,
    /// Bytes in the core in 4 KiB pages that are all zero. `null` if not scanned.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
}

/// Sums over all kinds. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TotalRow {
    /// Number of regions.
    pub count: u64,
    /// Address space.
    pub size: u64,
    /// Bytes in the core.
    pub in_core: u64,
    /// Bytes in pages that are all zero.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
}

/// Totals of all mappings, counted independently of the map. Sizes in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BaseRow {
    /// Source of the mappings: PT_LOAD and NT_FILE of a core, /proc/PID/maps of a running process.
    pub source: &'static str,
    /// Address space.
    pub size: u64,
    /// Bytes in the core.
    pub in_core: u64,
}

/// Resident memory in bytes: `kinds` + `not_in_core` = `smaps`, and `smaps` + `counting` = `vm_rss`. A field is `null`
/// if unknown.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RssReport {
    /// Where the figures were read from.
    pub source: String,
    /// VmRSS of /proc/PID/status, the kernel's own counter.
    pub vm_rss: Option<u64>,
    /// Sum over the kinds.
    pub kinds: u64,
    /// Page tables (VmPTE). Not in any RSS, but charged to the control group and counted by the OOM killer.
    pub page_tables: Option<u64>,
    /// `vm_rss` − `kinds`, which is `not_in_core` + `counting`.
    pub difference: Option<i64>,
    /// Resident bytes in mappings that the core does not list.
    pub not_in_core: u64,
    /// Sum of Rss over all mappings. Exact, because the kernel checks every page for it.
    pub smaps: u64,
    /// `vm_rss` − `smaps`. The kernel updates VmRSS in batches per thread or processor, or it was read at another time.
    pub counting: Option<i64>,
    /// Peak resident size (VmHWM).
    pub vm_hwm: Option<u64>,
    /// Anonymous bytes of `vm_rss`.
    pub rss_anon: Option<u64>,
    /// File pages in `vm_rss`.
    pub rss_file: Option<u64>,
    /// Shared memory in `vm_rss`.
    pub rss_shmem: Option<u64>,
    /// Resident bytes, each page divided by the number of processes that map it.
    pub pss: Option<u64>,
    /// Anonymous bytes of `smaps`, including private copies of file pages.
    pub anonymous: Option<u64>,
    /// Bytes of `smaps` freed with MADV_FREE, which the kernel reclaims when memory is short.
    pub lazy_free: Option<u64>,
    /// Bytes in swap.
    pub swap: Option<u64>,
    /// Bytes in hugetlbfs pages, which no RSS counts.
    pub hugetlb: Option<u64>,
    /// Bytes that the OOM killer counts: RSS, swap and page tables.
    pub oom: Option<u64>,
    /// Figures of its control group.
    pub cgroup: Option<CgroupRow>,
}

/// Memory of the control group, for all of its processes. Bytes; `null` if unknown.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CgroupRow {
    /// 1 or 2.
    pub version: u8,
    /// Total charged to the group.
    pub current: Option<u64>,
    /// Limit. `null` also if there is none.
    pub max: Option<u64>,
    /// Peak charge.
    pub peak: Option<u64>,
    /// Bytes in swap.
    pub swap: Option<u64>,
    /// Anonymous memory.
    pub anon: Option<u64>,
    /// Page cache, including shared memory.
    pub file: Option<u64>,
    /// Bytes of `file` that a process maps.
    pub file_mapped: Option<u64>,
    /// Shared memory in `file`.
    pub shmem: Option<u64>,
    /// Kernel memory.
    pub kernel: Option<u64>,
    /// Thread stacks in `kernel`.
    pub kernel_stack: Option<u64>,
    /// Page tables in `kernel`.
    pub page_tables: Option<u64>,
    /// Slabs in `kernel`.
    pub slab: Option<u64>,
    /// Socket buffers.
    pub sock: Option<u64>,
    /// `current` − `anon` − `file` − `kernel` − `sock`: memory in no other counter, and charges between two reads.
    pub other: Option<i64>,
}

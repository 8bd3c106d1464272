use schemars::JsonSchema;
use serde::Serialize;

use crate::map::Kind;
use crate::report::{ConditionRow, Finding, Resident};

/// `summary`: where the memory is, by kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SummaryReport {
    /// Kinds, biggest first by `rss` where that is known, else by what of them is in the core, then by size; reserved address space (NoAccess,
    /// GCHeapReserve) last.
    pub kinds: Vec<KindRow>,
    /// Their sums.
    pub total: TotalRow,
    /// What the sums must equal.
    pub base: BaseRow,
    /// What was in RAM, and how that agrees with the kernel's own sums; `null` where it is not known: of a core without
    /// `--smaps`.
    pub rss: Option<RssReport>,
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
    /// Held by the core.
    pub in_core: u64,
    /// In pages that are all zero.
    pub zero: Option<u64>,
    /// `in_core` − `zero`.
    pub written: Option<u64>,
    /// Resident figures.
    #[serde(flatten)]
    pub resident: Resident,
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

/// What was in RAM, in bytes: `kinds` + `not_in_core` = `smaps`, and `smaps` + `counting` = `vm_rss`. `null`: not told.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RssReport {
    /// Where it was read from.
    pub source: String,
    /// VmRSS of /proc/PID/status, the kernel's own count.
    pub vm_rss: Option<u64>,
    /// The sum of the kinds.
    pub kinds: u64,
    /// Page tables (VmPTE): no part of any RSS, but charged to the control group and weighed by the OOM killer.
    pub page_tables: Option<u64>,
    /// `vm_rss` − `kinds`: what `not_in_core` and `counting` add up to.
    pub difference: Option<i64>,
    /// Resident in mappings that the core does not list.
    pub not_in_core: u64,
    /// The sum of Rss over all mappings: exact, as the kernel looks at every page for it.
    pub smaps: u64,
    /// `vm_rss` − `smaps`: the kernel counts VmRSS in batches, a thread or a processor each, or it was read at another
    /// moment.
    pub counting: Option<i64>,
    /// The most that was ever resident (VmHWM).
    pub vm_hwm: Option<u64>,
    /// Of `vm_rss`, of no file.
    pub rss_anon: Option<u64>,
    /// Of `vm_rss`, pages of files.
    pub rss_file: Option<u64>,
    /// Of `vm_rss`, shared memory.
    pub rss_shmem: Option<u64>,
    /// Proportional to the number of processes that map each page.
    pub pss: Option<u64>,
    /// Of `smaps`, of no file, copies of files' pages included.
    pub anonymous: Option<u64>,
    /// Of `smaps`, given back by MADV_FREE: the kernel takes it when it needs memory.
    pub lazy_free: Option<u64>,
    /// In swap.
    pub swap: Option<u64>,
    /// In pages of hugetlbfs, which no RSS counts.
    pub hugetlb: Option<u64>,
    /// What the OOM killer weighs: RSS, swap and page tables.
    pub oom: Option<u64>,
    /// Its control group.
    pub cgroup: Option<CgroupRow>,
}

/// What the control group counts, of all its processes. Bytes; `null`: not told.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CgroupRow {
    /// 1 or 2.
    pub version: u8,
    /// All that is charged to it.
    pub current: Option<u64>,
    /// Its limit; `null` also where there is none.
    pub max: Option<u64>,
    /// The most that was ever charged.
    pub peak: Option<u64>,
    /// In swap.
    pub swap: Option<u64>,
    /// Anonymous memory.
    pub anon: Option<u64>,
    /// Page cache, with shared memory.
    pub file: Option<u64>,
    /// Of `file`, mapped by a process.
    pub file_mapped: Option<u64>,
    /// Of `file`, shared memory.
    pub shmem: Option<u64>,
    /// The kernel's memory for it.
    pub kernel: Option<u64>,
    /// Of `kernel`, stacks of threads.
    pub kernel_stack: Option<u64>,
    /// Of `kernel`, page tables.
    pub page_tables: Option<u64>,
    /// Of `kernel`, slabs.
    pub slab: Option<u64>,
    /// Buffers of sockets.
    pub sock: Option<u64>,
    /// `current` less `anon`, `file`, `kernel` and `sock`: what the kernel names nowhere, and what was charged between two
    /// reads.
    pub other: Option<i64>,
}

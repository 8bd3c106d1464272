//! Resident memory of a process, as plain data.
//!
//! A core has bytes, but does not say which of them were in RAM. Linux reports this for a running process in
//! /proc/PID/smaps (figures of each mapping), pagemap (each page), status (sums) and in the files of its control group.
//! Whoever dumps a process may have saved smaps. [`crate::resident`] parses these files.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::range_map::{RangeMap, Ranged};
use crate::targets::Perms;

/// A figure that Linux reports for a mapping (proc(5), fs/proc/task_mmu.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Figure {
    /// Resident: in RAM and mapped by this process.
    Rss,
    /// Proportional: each resident page divided by the number of processes that map it.
    Pss,
    /// Resident, mapped by several processes, unmodified.
    SharedClean,
    /// Resident, mapped by several processes, modified.
    SharedDirty,
    /// Resident, mapped by this process alone, unmodified. The kernel can reclaim it at any time.
    PrivateClean,
    /// Resident, mapped by this process alone, modified. Would be freed if the process ended.
    PrivateDirty,
    /// Resident without a file, or a copy of a file's page made on writing.
    Anonymous,
    /// Released by MADV_FREE and still resident. The kernel takes it when it needs memory.
    LazyFree,
    /// Resident in huge pages of anonymous memory.
    AnonHuge,
    /// Resident in huge pages of shared memory (tmpfs, memfd).
    ShmemHuge,
    /// Resident in huge pages of files.
    FileHuge,
    /// Bytes in hugetlbfs pages that other processes map too. Not part of [`Figure::Rss`].
    SharedHugetlb,
    /// Bytes in hugetlbfs pages of this process alone. Not part of [`Figure::Rss`].
    PrivateHugetlb,
    /// Bytes in swap.
    Swap,
    /// Bytes in swap, each page divided by the number of processes that share it.
    SwapPss,
}

impl Figure {
    /// All figures, in order of declaration.
    pub const ALL: [Figure; 15] = [
        Figure::Rss,
        Figure::Pss,
        Figure::SharedClean,
        Figure::SharedDirty,
        Figure::PrivateClean,
        Figure::PrivateDirty,
        Figure::Anonymous,
        Figure::LazyFree,
        Figure::AnonHuge,
        Figure::ShmemHuge,
        Figure::FileHuge,
        Figure::SharedHugetlb,
        Figure::PrivateHugetlb,
        Figure::Swap,
        Figure::SwapPss,
    ];

    /// Bit of the figure in [`FigureSet`].
    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// The set of figures that the kernel reported. Old kernels lack some. A missing figure is unknown, not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FigureSet(u16);

impl FigureSet {
    /// The empty set.
    pub const EMPTY: FigureSet = FigureSet(0);

    /// Whether the set contains a figure.
    pub fn has(self, figure: Figure) -> bool {
        self.0 & figure.bit() != 0
    }

    /// Adds a figure.
    pub fn add(&mut self, figure: Figure) {
        self.0 |= figure.bit();
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn and(self, other: FigureSet) -> FigureSet {
        FigureSet(self.0 & other.0)
    }
}

/// Figures of a mapping, or of any range of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures([u64; Figure::ALL.len()]);

impl Figures {
    /// A figure in bytes. 0 also if the kernel did not report it ([`FigureSet`]).
    pub fn get(&self, figure: Figure) -> u64 {
        self.0[figure as usize]
    }

    /// Sets a figure.
    pub fn set(&mut self, figure: Figure, bytes: u64) {
        self.0[figure as usize] = bytes;
    }

    /// Returns these figures with one of them replaced.
    #[must_use]
    pub fn with(mut self, figure: Figure, bytes: u64) -> Figures {
        self.set(figure, bytes);
        self
    }

    /// Adds the figures of other memory.
    pub fn add(&mut self, other: &Figures) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// Bytes that several processes map, modified or not.
    pub fn shared(&self) -> u64 {
        self.get(Figure::SharedClean).saturating_add(self.get(Figure::SharedDirty))
    }

    /// Bytes in huge pages of all kinds, including hugetlbfs.
    pub fn huge(&self) -> u64 {
        let sorts = [Figure::AnonHuge, Figure::ShmemHuge, Figure::FileHuge];
        sorts.into_iter().map(|sort| self.get(sort)).fold(self.hugetlb(), u64::saturating_add)
    }

    /// Bytes in hugetlbfs pages, which are not part of [`Figure::Rss`].
    pub fn hugetlb(&self) -> u64 {
        self.get(Figure::SharedHugetlb).saturating_add(self.get(Figure::PrivateHugetlb))
    }
}

/// Properties of a mapping (VmFlags of smaps).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmFlags {
    /// `ht`: hugetlbfs pages, which no RSS counts.
    pub hugetlb: bool,
    /// `dd`: MADV_DONTDUMP. The kernel leaves the mapping out of cores.
    pub dont_dump: bool,
    /// `pf` or `io`: device memory, which no RSS counts.
    pub device: bool,
    /// `lo`: locked, never swapped.
    pub locked: bool,
    /// `hg`: MADV_HUGEPAGE.
    pub huge_advised: bool,
}

/// Identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    /// Device number, major and minor.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
}

/// Residence of one mapping.
#[derive(Clone, Copy, Debug, Default)]
pub struct MappingResidence {
    /// Address range.
    pub range: AddrRange,
    /// Access.
    pub perms: Perms,
    /// Whether it was mapped MAP_SHARED.
    pub shared: bool,
    /// Its file, including memfd and System V shared memory. `None` if the inode is 0.
    pub file: Option<FileId>,
    /// Page size in bytes (KernelPageSize). 0 if it was not reported.
    pub page_size: u64,
    /// Flags.
    pub flags: VmFlags,
    /// Figures.
    pub figures: Figures,
}

impl Ranged for MappingResidence {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Page states of a range of memory (pagemap). Each list is sorted and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRuns {
    /// Pages in RAM. Preferably without pages that smaps does not count, such as the zero page, which is mapped where
    /// untouched memory is only read.
    pub resident: Vec<AddrRange>,
    /// The subset of `resident` that no other process maps. `None` if this is not known.
    pub private: Option<Vec<AddrRange>>,
    /// Pages in swap, without guard page markers, which pagemap shows as swapped too.
    pub swapped: Vec<AddrRange>,
}

/// Reports resident memory by page, for mappings where this is known.
pub trait Pages: Send + Sync {
    /// The pages of `range`, which is within one mapping. `None` if they are not known. May be called at any time. All
    /// results should be from one moment, because differences from the mapping's figures count as estimated.
    fn pages(&self, range: AddrRange) -> Option<PageRuns>;
}

/// The pages of one range of memory.
#[derive(Clone, Debug, Default)]
pub struct KnownPages {
    /// The range that `runs` describes.
    pub range: AddrRange,
    /// The pages in the range.
    pub runs: PageRuns,
}

impl Ranged for KnownPages {
    fn range(&self) -> AddrRange {
        self.range
    }
}

impl Pages for RangeMap<KnownPages> {
    fn pages(&self, range: AddrRange) -> Option<PageRuns> {
        let known = self.at(range.start).filter(|known| known.range.covers(&range))?;
        let within = |runs: &[AddrRange]| runs.iter().filter_map(|run| run.intersect(&range)).collect();
        Some(PageRuns {
            resident: within(&known.runs.resident),
            private: known.runs.private.as_deref().map(within),
            swapped: within(&known.runs.swapped),
        })
    }
}

/// The kernel's sums for a process (/proc/PID/status), in bytes. `None` if not reported.
///
/// The kernel updates them in batches per thread or processor. They may differ from the sum of smaps, which visits
/// every page, by some hundred KiB either way (mm/memory.c, `SPLIT_RSS_COUNTING`; percpu_counter since 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusFigures {
    /// Process ID, as seen where the file was read.
    pub pid: Option<u32>,
    /// Resident: the sum of `rss_anon`, `rss_file` and `rss_shmem`.
    pub vm_rss: Option<u64>,
    /// Highest resident size so far.
    pub vm_hwm: Option<u64>,
    /// Resident, without a file.
    pub rss_anon: Option<u64>,
    /// Resident pages of files.
    pub rss_file: Option<u64>,
    /// Resident shared memory: tmpfs, memfd, System V, MAP_SHARED | MAP_ANONYMOUS.
    pub rss_shmem: Option<u64>,
    /// Anonymous memory in swap.
    pub vm_swap: Option<u64>,
    /// Page tables, including second-level ones (VmPMD), which kernels before 4.15 report separately.
    pub page_tables: Option<u64>,
    /// hugetlbfs pages, which VmRSS does not count.
    pub hugetlb: Option<u64>,
}

/// Figures of a control group: its processes, their caches and the kernel's memory for them. In bytes; `None` if not
/// reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupFigures {
    /// Version of control groups: 1 or 2.
    pub version: u8,
    /// All charged memory (memory.current; v1: memory.usage_in_bytes).
    pub current: Option<u64>,
    /// Limit beyond which the OOM killer acts (memory.max; v1: memory.limit_in_bytes). `None` also if there is no
    /// limit.
    pub max: Option<u64>,
    /// Highest charged memory so far (memory.peak; v1: memory.max_usage_in_bytes).
    pub peak: Option<u64>,
    /// Swap (memory.swap.current; v1: `swap` of memory.stat).
    pub swap: Option<u64>,
    /// Anonymous memory, including huge pages (v1: `rss`).
    pub anon: Option<u64>,
    /// Page cache, including shared memory (v1: `cache`).
    pub file: Option<u64>,
    /// Part of `file` that a process has mapped.
    pub file_mapped: Option<u64>,
    /// Part of `file` that is shared memory.
    pub shmem: Option<u64>,
    /// All kernel memory (since 5.18; v1: memory.kmem.usage_in_bytes).
    pub kernel: Option<u64>,
    /// Part of `kernel`: kernel stacks of threads.
    pub kernel_stack: Option<u64>,
    /// Part of `kernel`: page tables.
    pub page_tables: Option<u64>,
    /// Part of `kernel`: slabs (dentries, inodes, descriptors).
    pub slab: Option<u64>,
    /// Buffers of sockets.
    pub sock: Option<u64>,
}

/// Resident memory of a process at one moment.
#[derive(Clone, Default)]
pub struct Residence {
    /// Origin of the figures, for the user: `/proc/4711/smaps`, or the path of a file.
    pub source: String,
    /// Mappings with figures.
    pub mappings: RangeMap<MappingResidence>,
    /// The figures that the kernel reported for all mappings.
    pub reported: FigureSet,
    /// Single pages, if they are known.
    pub pages: Option<Arc<dyn Pages>>,
    /// The kernel's sums for the process.
    pub status: StatusFigures,
    /// Figures of its control group.
    pub cgroup: Option<CgroupFigures>,
}

impl Residence {
    /// The mapping that contains `addr`.
    pub fn mapping_at(&self, addr: Addr) -> Option<&MappingResidence> {
        self.mappings.at(addr)
    }

    /// Sum of all mappings. Exact, because smaps visits every page.
    pub fn total(&self) -> Figures {
        self.mappings.iter().fold(Figures::default(), |mut sum, mapping| {
            sum.add(&mapping.figures);
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(Addr::new(start), Addr::new(end))
    }

    #[test]
    fn figures_are_where_they_were_put() {
        let mut reported = FigureSet::EMPTY;
        let mut figures = Figures::default();
        for (i, figure) in Figure::ALL.into_iter().enumerate() {
            assert!(!reported.has(figure));
            reported.add(figure);
            figures.set(figure, 1 << i);
        }
        for (i, figure) in Figure::ALL.into_iter().enumerate() {
            assert!(reported.has(figure));
            assert_eq!(figures.get(figure), 1 << i);
        }
        let most = Figures::default().with(Figure::Rss, u64::MAX);
        let mut sum = most;
        sum.add(&figures);
        assert_eq!(sum.get(Figure::Rss), u64::MAX);
    }

    #[test]
    fn pages_are_known_of_what_they_speak_for() {
        let runs = PageRuns { resident: vec![range(0x1000, 0x3000), range(0x4000, 0x5000)], ..PageRuns::default() };
        let known = KnownPages { range: range(0x1000, 0x8000), runs };
        let Some(pages) = RangeMap::from_sorted(vec![known]) else { panic!("one is sorted") };
        let within = pages.pages(range(0x2000, 0x5000)).map(|runs| runs.resident);
        assert_eq!(within, Some(vec![range(0x2000, 0x3000), range(0x4000, 0x5000)]));
        assert_eq!(pages.pages(range(0x7000, 0x9000)), None);
        assert_eq!(pages.pages(range(0x9000, 0xa000)), None);
    }
}

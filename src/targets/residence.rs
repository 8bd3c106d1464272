//! What of a process's memory was in RAM, beside what was mapped: plain data.
//!
//! A core holds bytes and does not tell which of them took RAM. Linux tells that of a process that runs, in
//! /proc/PID/smaps (figures of each mapping), pagemap (each page), status (sums) and in the files of its control
//! group; who dumps a process may have saved the first of them. [`crate::resident`] reads these texts.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::range_map::{RangeMap, Ranged};
use crate::targets::Perms;

/// A figure that Linux tells of a mapping (proc(5), fs/proc/task_mmu.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Figure {
    /// In RAM and mapped by this process: resident.
    Rss,
    /// Proportional: each resident page divided by the number of processes that map it.
    Pss,
    /// Resident, mapped by several processes, as in its file.
    SharedClean,
    /// Resident, mapped by several processes, changed since.
    SharedDirty,
    /// Resident, mapped by this process alone, as in its file: the kernel can take it back at any time.
    PrivateClean,
    /// Resident, mapped by this process alone, changed: what would be free if the process ended.
    PrivateDirty,
    /// Resident and of no file, or a copy of a file's page made on writing.
    Anonymous,
    /// Given back by MADV_FREE and still resident: the kernel takes it when it needs memory.
    LazyFree,
    /// Resident in huge pages of anonymous memory.
    AnonHuge,
    /// Resident in huge pages of shared memory (tmpfs, memfd).
    ShmemHuge,
    /// Resident in huge pages of files.
    FileHuge,
    /// In pages of hugetlbfs that others map too; not in [`Figure::Rss`].
    SharedHugetlb,
    /// In pages of hugetlbfs of this process alone; not in [`Figure::Rss`].
    PrivateHugetlb,
    /// Written out to swap.
    Swap,
    /// Written out to swap, each page divided by the number of processes that share it.
    SwapPss,
}

impl Figure {
    /// All of them, as they are declared.
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

    /// Its bit in [`Told`].
    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// Which figures the kernel told at all: old ones lack some, and what is not told is unknown and not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told(u16);

impl Told {
    /// None.
    pub const NOTHING: Told = Told(0);

    /// Whether this one was.
    pub fn has(self, figure: Figure) -> bool {
        self.0 & figure.bit() != 0
    }

    /// This one was.
    pub fn add(&mut self, figure: Figure) {
        self.0 |= figure.bit();
    }

    /// Those that both have.
    #[must_use]
    pub fn and(self, other: Told) -> Told {
        Told(self.0 & other.0)
    }
}

/// The figures of a mapping, or of any run of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures([u64; Figure::ALL.len()]);

impl Figures {
    /// One of them, in bytes; 0 too where it was not told ([`Told`]).
    pub fn get(&self, figure: Figure) -> u64 {
        self.0[figure as usize]
    }

    /// Make one of them so many bytes.
    pub fn set(&mut self, figure: Figure, bytes: u64) {
        self.0[figure as usize] = bytes;
    }

    /// The same with one of them so many bytes.
    #[must_use]
    pub fn with(mut self, figure: Figure, bytes: u64) -> Figures {
        self.set(figure, bytes);
        self
    }

    /// Add those of other memory.
    pub fn add(&mut self, other: &Figures) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// Bytes that several processes map, changed or not.
    pub fn shared(&self) -> u64 {
        self.get(Figure::SharedClean).saturating_add(self.get(Figure::SharedDirty))
    }

    /// Bytes in huge pages, of whatever sort, hugetlbfs included.
    pub fn huge(&self) -> u64 {
        let sorts = [Figure::AnonHuge, Figure::ShmemHuge, Figure::FileHuge];
        sorts.into_iter().map(|sort| self.get(sort)).fold(self.hugetlb(), u64::saturating_add)
    }

    /// Bytes in pages of hugetlbfs, which are not in [`Figure::Rss`].
    pub fn hugetlb(&self) -> u64 {
        self.get(Figure::SharedHugetlb).saturating_add(self.get(Figure::PrivateHugetlb))
    }
}

/// Properties of a mapping that say how its memory behaves (VmFlags of smaps).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmFlags {
    /// `ht`: pages of hugetlbfs, which no RSS counts.
    pub hugetlb: bool,
    /// `dd`: MADV_DONTDUMP, the kernel leaves it out of cores.
    pub dont_dump: bool,
    /// `pf` or `io`: memory of a device, which no RSS counts.
    pub device: bool,
    /// `lo`: locked, it is never swapped.
    pub locked: bool,
    /// `hg`: MADV_HUGEPAGE.
    pub huge_advised: bool,
}

/// One mapping and what of it was resident.
#[derive(Clone, Copy, Debug, Default)]
pub struct MappingResidence {
    /// Addresses.
    pub range: AddrRange,
    /// Access.
    pub perms: Perms,
    /// Whether it was mapped MAP_SHARED.
    pub shared: bool,
    /// Whether it is of a file (its inode is not 0): memory of memfd and System V too.
    pub file: bool,
    /// Bytes of a page of it (KernelPageSize), 0 where that is not told.
    pub page_size: u64,
    /// How it behaves.
    pub flags: VmFlags,
    /// Its figures.
    pub figures: Figures,
}

impl Ranged for MappingResidence {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Which pages of a run of memory are where (pagemap). Each list is sorted and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRuns {
    /// In RAM. Pages that smaps does not count are best left out: the zero page, which is mapped where untouched memory is
    /// only read.
    pub resident: Vec<AddrRange>,
    /// Of `resident`, those that no other process maps; `None` where that is not known.
    pub private: Option<Vec<AddrRange>>,
    /// Written out to swap; without markers of guard pages, which pagemap tells as swapped too.
    pub swapped: Vec<AddrRange>,
}

/// Tells page by page what was resident, of the mappings where that is known.
pub trait Pages: Send + Sync {
    /// The pages of `range`, which lies within one mapping; `None` where they are not known. May be asked at any time, and
    /// should answer for one moment: what does not add up to the mapping's figures counts as estimated.
    fn pages(&self, range: AddrRange) -> Option<PageRuns>;
}

/// The pages of one run of memory.
#[derive(Clone, Debug, Default)]
pub struct KnownPages {
    /// Addresses that the runs speak for.
    pub range: AddrRange,
    /// Where its pages are.
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

/// Sums that Linux keeps of a process (/proc/PID/status), in bytes; `None`: not told.
///
/// The kernel counts them as it goes, a batch for each thread or processor: they may differ from the sum of smaps, which
/// looks at every page, by some hundred KiB either way (mm/memory.c, `SPLIT_RSS_COUNTING`; percpu_counter since 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusFigures {
    /// Process id, as seen where the file was read.
    pub pid: Option<u32>,
    /// Resident: the three below.
    pub vm_rss: Option<u64>,
    /// The most that was ever resident.
    pub vm_hwm: Option<u64>,
    /// Resident and of no file.
    pub rss_anon: Option<u64>,
    /// Resident pages of files.
    pub rss_file: Option<u64>,
    /// Resident shared memory: tmpfs, memfd, System V, MAP_SHARED | MAP_ANONYMOUS.
    pub rss_shmem: Option<u64>,
    /// Anonymous memory in swap.
    pub vm_swap: Option<u64>,
    /// Page tables; with those of the second level (VmPMD), which kernels before 4.15 told apart.
    pub page_tables: Option<u64>,
    /// Pages of hugetlbfs, which VmRSS does not count.
    pub hugetlb: Option<u64>,
}

/// What a control group counts: of all its processes, their caches and the kernel's memory for them. In bytes; `None`: not
/// told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupFigures {
    /// Version of control groups: 1 or 2.
    pub version: u8,
    /// All that is charged to it (memory.current; v1: memory.usage_in_bytes).
    pub current: Option<u64>,
    /// The limit at which the OOM killer comes (memory.max; v1: memory.limit_in_bytes); `None` also where there is none.
    pub max: Option<u64>,
    /// The most that was ever charged (memory.peak; v1: memory.max_usage_in_bytes).
    pub peak: Option<u64>,
    /// Swap (memory.swap.current; v1: `swap` of memory.stat).
    pub swap: Option<u64>,
    /// Anonymous memory, huge pages included (v1: `rss`).
    pub anon: Option<u64>,
    /// Page cache, shared memory included (v1: `cache`).
    pub file: Option<u64>,
    /// Of `file`, mapped by a process.
    pub file_mapped: Option<u64>,
    /// Of `file`, shared memory.
    pub shmem: Option<u64>,
    /// All memory of the kernel (since 5.18; v1: memory.kmem.usage_in_bytes).
    pub kernel: Option<u64>,
    /// Of that, stacks of threads in the kernel.
    pub kernel_stack: Option<u64>,
    /// Of that, page tables.
    pub page_tables: Option<u64>,
    /// Of that, slabs: dentries, inodes, descriptors.
    pub slab: Option<u64>,
    /// Buffers of sockets.
    pub sock: Option<u64>,
}

/// What of a process was resident, at one moment.
#[derive(Clone, Default)]
pub struct Residence {
    /// Where that was read from, for people: `/proc/4711/smaps`, or the path of a file.
    pub source: String,
    /// Its mappings.
    pub mappings: RangeMap<MappingResidence>,
    /// Which figures of them the kernel told.
    pub told: Told,
    /// Single pages, where they are known.
    pub pages: Option<Arc<dyn Pages>>,
    /// Sums that the kernel keeps of the process.
    pub status: StatusFigures,
    /// Its control group.
    pub cgroup: Option<CgroupFigures>,
}

impl Residence {
    /// The mapping that holds `addr`.
    pub fn mapping_at(&self, addr: Addr) -> Option<&MappingResidence> {
        self.mappings.at(addr)
    }

    /// The sums over all mappings. Exact, as smaps looks at every page.
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
        let mut told = Told::NOTHING;
        let mut figures = Figures::default();
        for (i, figure) in Figure::ALL.into_iter().enumerate() {
            assert!(!told.has(figure));
            told.add(figure);
            figures.set(figure, 1 << i);
        }
        for (i, figure) in Figure::ALL.into_iter().enumerate() {
            assert!(told.has(figure));
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

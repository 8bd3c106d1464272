//! Divides all memory by subject. Each region belongs to one subject, so nothing counts twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::addr::{AddrRange, PAGE, union};
use crate::analysis::contents::owner;
use crate::analysis::resident::{self, held};
use crate::analysis::zero::ZeroMap;
use crate::map::kind_facts::Backing;
use crate::map::{Confidence, Kind, Region, kind_facts};
use crate::memory::scan::ZeroStat;
use crate::runtimes::api::KindBytes;
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::targets::residence::{Figure, Figures};
use crate::targets::{Perms, Residence, SecondView};

/// Subject of memory, as findings report it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Blocks of the C library's malloc, used and free.
    Malloc,
    /// Stacks of threads, without their guards.
    Stacks,
    /// Objects of a managed runtime whose heap is walked, and its GC's card tables and bitmaps.
    ManagedHeap,
    /// Other structures and code of such a runtime: loader heaps, handles, stubs, jitted code.
    RuntimeData,
    /// Program files.
    Images,
    /// Other mapped files that the process may write, or whose access is unknown.
    Files,
    /// Other mapped files that the process may only read. Their contents are the file's, and the system can reclaim the
    /// pages.
    FilePages,
    /// Shared memory and memfd.
    Shared,
    /// Second views of pages, which count at their first mapping.
    SecondViews,
    /// An allocator or runtime that is recognised but not walked, by name.
    Recognised(Kind, Arc<str>),
    /// Writable memory without a known owner.
    Anonymous,
    /// Memory of the kernel and of the dump's producer.
    System,
    /// Address space that is reserved and not used.
    Reserved,
}

impl Subject {
    /// Returns the subject of a region. `perms`: its access, if that is known.
    fn of(region: &Region, perms: Option<Perms>) -> Subject {
        if is_second_view(region) {
            return Subject::SecondViews;
        }
        match region.kind.facts().subject {
            kind_facts::Subject::Reserved => Subject::Reserved,
            kind_facts::Subject::Anonymous => Subject::Anonymous,
            kind_facts::Subject::Files if perms.is_some_and(|perms| !perms.write) => Subject::FilePages,
            kind_facts::Subject::Files => Subject::Files,
            kind_facts::Subject::Shared => Subject::Shared,
            kind_facts::Subject::Images => Subject::Images,
            kind_facts::Subject::System => Subject::System,
            kind_facts::Subject::Malloc => Subject::Malloc,
            kind_facts::Subject::Stacks => Subject::Stacks,
            kind_facts::Subject::ManagedHeap => Subject::ManagedHeap,
            kind_facts::Subject::Recognised => Subject::Recognised(region.kind, owner(&region.detail)),
            kind_facts::Subject::RuntimeData => Subject::RuntimeData,
        }
    }

    /// Returns the ids of findings that may be about this memory, the usual one first.
    pub(super) fn findings(&self) -> &'static [&'static str] {
        match self {
            Subject::Malloc => &["malloc"],
            Subject::Stacks => &["stacks"],
            Subject::ManagedHeap => &["managed-heap"],
            Subject::RuntimeData => &["runtime"],
            Subject::Images => &["images"],
            Subject::Files => &["mapped-files"],
            Subject::FilePages => &["file-pages"],
            Subject::Shared => &["shared-memory"],
            Subject::SecondViews => &[],
            Subject::Recognised(..) => &["allocator", "runtime-heap", "recognised"],
            Subject::Anonymous => &["anonymous", "anonymous-blocks", "unnamed", "not-in-core"],
            Subject::System => &["system"],
            Subject::Reserved => &["reserved"],
        }
    }

    /// Describes this memory in words.
    pub(super) fn words(&self) -> String {
        let words = match self {
            Subject::Malloc => "malloc",
            Subject::Stacks => "stacks",
            Subject::ManagedHeap => "managed heap",
            Subject::RuntimeData => "runtime structures",
            Subject::Images => "program files",
            Subject::Files => "mapped files",
            Subject::FilePages => "read-only files",
            Subject::Shared => "shared memory",
            Subject::SecondViews => "second views",
            Subject::Recognised(_, owner) => owner,
            Subject::Anonymous => "memory without a known owner",
            Subject::System => "the kernel's pages",
            Subject::Reserved => "reserved memory",
        };
        words.to_owned()
    }
}

/// Bytes of resident memory in each state. 0 also if unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageStates {
    /// Freed with MADV_FREE and not yet reclaimed.
    pub(super) lazy_free: u64,
    /// Locked by mlock or mlockall.
    pub(super) locked: u64,
    /// In huge pages, hugetlbfs included.
    pub(super) huge: u64,
}

impl PageStates {
    fn of(residence: &Residence, region: &Region, figures: &Figures) -> PageStates {
        let is_locked = residence.mapping_at(region.range.start).is_some_and(|mapping| mapping.flags.locked);
        PageStates {
            lazy_free: figures.get(Figure::LazyFree),
            locked: if is_locked { figures.get(Figure::Rss) } else { 0 },
            huge: figures.huge(),
        }
    }

    fn add(&mut self, other: &PageStates) {
        self.lazy_free = self.lazy_free.saturating_add(other.lazy_free);
        self.locked = self.locked.saturating_add(other.locked);
        self.huge = self.huge.saturating_add(other.huge);
    }
}

/// Memory of one subject. Sizes in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    /// Address space.
    pub(super) size: u64,
    /// Bytes in the core.
    pub(super) in_core: u64,
    /// Bytes in the measure of the tally.
    pub(super) used: u64,
    /// Indices of the regions in the map.
    pub(super) regions: Vec<usize>,
    /// States of its pages.
    pub(super) states: PageStates,
}

/// Measure of a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Bytes in RAM, including hugetlbfs pages. This includes touched zero pages, and memory that is not in the core.
    Resident,
    /// Bytes in RAM as in `Resident`, and bytes in swap.
    ResidentOrSwapped,
    /// Bytes in pages of the core that are not all zero.
    Written,
    /// Bytes in the core. Used if its pages were not scanned.
    InCore,
}

impl Measure {
    pub(super) fn is_resident(self) -> bool {
        matches!(self, Measure::Resident | Measure::ResidentOrSwapped)
    }

    /// Returns the word for bytes in this measure.
    pub(super) fn word(self) -> &'static str {
        match self {
            Measure::Resident => "resident",
            Measure::ResidentOrSwapped => "resident or swapped",
            Measure::Written => "written",
            Measure::InCore => "in the core",
        }
    }
}

/// Memory of the process divided by subject. Bytes of second views are in no share, because their pages count at their
/// first mapping.
pub(super) struct Tally {
    pub(super) measure: Measure,
    pub(super) shares: BTreeMap<Subject, Share>,
    /// Bytes of each region, by the measure.
    pub(super) used: Vec<u64>,
    /// Parts of mappings that the core does not list, with their resident and swapped bytes.
    pub(super) unlisted: Vec<(AddrRange, u64)>,
    /// Bytes of second views.
    pub(super) second_views: u64,
    /// Whether some second views are recognised only by their access.
    pub(super) guessed_views: bool,
    /// Bytes in pages of the core that are not all zero. If pages were not scanned, all bytes in the core.
    pub(super) written: u64,
    /// Counted bytes that are in swap.
    pub(super) swapped: u64,
}

/// Whether the pages of a region are also mapped at another address, where they count.
fn is_second_view(region: &Region) -> bool {
    region.kind.facts().backing == Backing::SecondView
}

/// Returns the access of a region. A core may list files without it.
pub(super) fn perms(session: &Session<'_>, region: &Region) -> Option<Perms> {
    let known = || session.process.residence()?.mapping_at(region.range.start).map(|mapping| mapping.perms);
    region.perms.or_else(known)
}

impl Tally {
    /// Sums the regions of a map. `zeros`: a scan of all pages. `by_region`: its result by region. If resident memory
    /// is known, it is used: it is what the system charges to the process. Written bytes lack zero pages, shared
    /// memory, files, and memory that is not in the core.
    pub(super) fn of(session: &Session<'_>, zeros: Option<&ZeroMap>, by_region: Option<&[ZeroStat]>) -> Tally {
        let regions = &session.map().regions;
        let in_core = |(i, region): (usize, &Region)| match by_region {
            Some(stats) => stats.get(i).map_or(0, |stat| stat.written),
            None => region.in_core,
        };
        let mut used: Vec<u64> = regions.iter().enumerate().map(in_core).collect();
        let once = regions.iter().zip(&used).filter(|(region, _)| !is_second_view(region));
        let written = once.map(|(_, bytes)| *bytes).saturating_sum();
        let mut measure = if by_region.is_some() { Measure::Written } else { Measure::InCore };
        let (mut unlisted, mut swapped) = (Vec::new(), 0);
        let mut states = vec![PageStates::default(); regions.len()];
        let mut at_first = BTreeMap::new();
        if let Some(residence) = resident::with_rss(session) {
            let figures = resident::by_region(session, residence, zeros);
            for (used, figures) in used.iter_mut().zip(&figures.regions) {
                // For a mapping without figures, use what the core has.
                if figures.covered > 0 {
                    *used = held(&figures.figures);
                }
            }
            for ((states, region), figures) in states.iter_mut().zip(regions.iter()).zip(&figures.regions) {
                *states = PageStates::of(residence, region, &figures.figures);
            }
            let others = figures.unlisted.iter().map(|(range, figures)| (*range, held(&figures.figures)));
            unlisted = others.filter(|(_, bytes)| *bytes > 0).collect();
            let once = regions.iter().zip(&figures.regions).filter(|(region, _)| !is_second_view(region));
            let all = once.map(|(_, figures)| figures).chain(figures.unlisted.iter().map(|(_, figures)| figures));
            swapped = all.map(|figures| figures.figures.get(Figure::Swap)).saturating_sum();
            measure = if swapped > 0 { Measure::ResidentOrSwapped } else { Measure::Resident };
            at_first = only_in_second_views(session, residence, zeros);
        }
        let mut second_views = 0_u64;
        let mut guessed_views = false;
        for (region, used) in regions.iter().zip(&mut used).filter(|(region, _)| is_second_view(region)) {
            guessed_views |= *used > 0 && region.confidence == Confidence::Heuristic;
            second_views = second_views.saturating_add(std::mem::take(used));
        }
        for (i, bytes) in at_first {
            let Some(used) = used.get_mut(i) else { continue };
            let bytes = bytes.min(second_views);
            second_views -= bytes;
            *used = used.saturating_add(bytes);
        }
        let mut shares: BTreeMap<Subject, Share> = BTreeMap::new();
        for (i, ((region, used), states)) in regions.iter().zip(&used).zip(&states).enumerate() {
            let share = shares.entry(Subject::of(region, perms(session, region))).or_default();
            share.size = share.size.saturating_add(region.range.len());
            share.in_core = share.in_core.saturating_add(region.in_core);
            share.used = share.used.saturating_add(*used);
            share.regions.push(i);
            share.states.add(states);
        }
        Tally { measure, shares, used, unlisted, second_views, guessed_views, written, swapped }
    }

    pub(super) fn by_kind(&self, session: &Session<'_>) -> KindBytes {
        let mut sums: BTreeMap<Kind, u64> = BTreeMap::new();
        for (region, used) in session.map().regions.iter().zip(&self.used) {
            let sum = sums.entry(region.kind).or_default();
            *sum = sum.saturating_add(*used);
        }
        let measure = match self.measure {
            Measure::Resident => "Resident",
            Measure::ResidentOrSwapped => "Resident or swapped",
            Measure::Written => "Written",
            Measure::InCore => "Dumped",
        };
        KindBytes { measure, bytes: sums }
    }

    /// Bytes of managed heaps that are in the core and read as zero. A runtime that clears objects wrote some of them.
    pub(super) fn zeros_of_heaps(&self) -> u64 {
        self.shares.get(&Subject::ManagedHeap).map_or(0, |share| share.in_core.saturating_sub(share.used))
    }

    pub(super) fn total(&self) -> u64 {
        let unlisted = self.unlisted.iter().map(|(_, bytes)| *bytes);
        self.shares.values().map(|share| share.used).chain(unlisted).saturating_sum()
    }
}

/// Returns the bytes that are resident only in second views, by the region of the first view. A page is resident in
/// each view in which it was touched. PSS counts each page once if no other process maps it, so PSS shows the number of
/// pages of all views. Otherwise this returns the smallest possible number.
fn only_in_second_views(session: &Session<'_>, residence: &Residence, zeros: Option<&ZeroMap>) -> BTreeMap<usize, u64> {
    let regions = &session.map().regions;
    let mut pairs: BTreeMap<usize, (Vec<AddrRange>, Vec<AddrRange>)> = BTreeMap::new();
    for SecondView { range: view, first, .. } in session.second_views() {
        let from = regions.partition_point(|region| region.range.end <= view.start);
        let seconds = regions.iter().skip(from).take_while(|region| region.range.start < view.end);
        for second in seconds.filter(|region| is_second_view(region)).filter_map(|r| r.range.intersect(view)) {
            let there = AddrRange::sized(first.saturating_add(second.start.since(view.start)), second.len());
            let from = regions.partition_point(|region| region.range.end <= there.start);
            let firsts = regions.iter().enumerate().skip(from).take_while(|(_, r)| r.range.start < there.end);
            for (i, region) in firsts.filter(|(_, region)| !is_second_view(region)) {
                let Some(part) = region.range.intersect(&there) else { continue };
                let here = second.start.saturating_add(part.start.since(there.start));
                let pair = pairs.entry(i).or_default();
                pair.0.push(part);
                pair.1.push(AddrRange::sized(here, part.len()));
            }
        }
    }
    // There are two groups for each region: its own pages, and the second views of them.
    let mut ranges: Vec<(AddrRange, usize)> = Vec::new();
    let mut sizes = Vec::new();
    for (n, (firsts, seconds)) in pairs.values().enumerate() {
        let firsts = union(firsts.clone());
        let len = |ranges: &[AddrRange]| ranges.iter().map(AddrRange::len).saturating_sum();
        sizes.push((len(&firsts), len(seconds).div_ceil(len(&firsts).max(1)).max(1)));
        ranges.extend(firsts.into_iter().map(|range| (range, 2 * n)));
        ranges.extend(seconds.iter().map(|range| (*range, 2 * n + 1)));
    }
    let figures = resident::figures_by_group(session, residence, &ranges, 2 * pairs.len(), zeros);
    let sums = figures.as_chunks::<2>().0.iter().zip(sizes);
    let more = sums.map(|([first, second], (size, views))| {
        let pss = first.figures.get(Figure::Pss).saturating_add(second.figures.get(Figure::Pss));
        let (first, second) = (held(&first.figures), held(&second.figures));
        // Linux rounds PSS down to KiB.
        let all = pss.checked_next_multiple_of(PAGE).unwrap_or(pss).max(second / views).min(size);
        all.saturating_sub(first).min(second)
    });
    pairs.keys().copied().zip(more).collect()
}

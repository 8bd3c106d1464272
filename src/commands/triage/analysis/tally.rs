//! Divides all memory by subject. Each region belongs to one subject, so nothing counts twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::addr::AddrRange;
use crate::analysis::contents::owner;
use crate::analysis::resident::by_range;
use crate::map::kind_facts::Backing;
use crate::map::{Confidence, Kind, Region, kind_facts};
use crate::memory::scan::ZeroStat;
use crate::session::Session;

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
    /// Other mapped files that the process may write.
    Files,
    /// Other mapped files that the process may only read. Their contents are the file's, and the system can reclaim the
    /// pages.
    FilePages,
    /// Shared memory and memfd.
    Shared,
    /// Second views of pages that count where they are mapped first.
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
    pub(super) fn of(region: &Region) -> Subject {
        if is_second_view(region) {
            return Subject::SecondViews;
        }
        match region.kind.facts().subject {
            kind_facts::Subject::Reserved => Subject::Reserved,
            kind_facts::Subject::Anonymous => Subject::Anonymous,
            kind_facts::Subject::Files if region.perms.is_some_and(|perms| !perms.write) => Subject::FilePages,
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
}

/// Memory of one subject. Sizes in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Share {
    /// Address space.
    pub(super) size: u64,
    /// Bytes in the core.
    pub(super) in_core: u64,
    /// Bytes in pages that are not all zero. Without a scan of the pages: resident bytes, else bytes in the core.
    pub(super) written: u64,
    /// Indices of the regions in the map.
    pub(super) regions: Vec<usize>,
}

pub(super) struct Tally {
    pub(super) shares: BTreeMap<Subject, Share>,
    /// Written bytes of each region.
    pub(super) written: Vec<u64>,
    /// Written bytes of second views. They are in no share.
    pub(super) second_views: u64,
    /// Whether some of them are second views by their access alone.
    pub(super) guessed_views: bool,
    /// Whether the written bytes are resident bytes.
    pub(super) of_ram: bool,
}

/// Whether the pages of a region are mapped at another address too, and count there.
fn is_second_view(region: &Region) -> bool {
    region.kind.facts().backing == Backing::SecondView
}

impl Tally {
    /// Sums the regions of a map. `zeros` is the result of a scan by region. Without it, resident bytes count if they
    /// are known.
    pub(super) fn of(session: &Session<'_>, zeros: Option<&[ZeroStat]>) -> Tally {
        let regions = &session.map().regions;
        let mut shares: BTreeMap<Subject, Share> = BTreeMap::new();
        let resident = zeros.is_none().then(|| session.process.residence()).flatten().map(|residence| {
            let ranges: Vec<AddrRange> = regions.iter().map(|region| region.range).collect();
            by_range(session, residence, &ranges, None)
        });
        let written = |(i, region): (usize, &Region)| match (zeros, &resident) {
            (Some(zeros), _) => zeros.get(i).map_or(0, |stat| stat.written),
            (None, Some(resident)) => resident.get(i).and_then(|told| told.rss).unwrap_or(0),
            (None, None) => region.in_core,
        };
        let mut written: Vec<u64> = regions.iter().enumerate().map(written).collect();
        let mut second_views = 0u64;
        let mut guessed_views = false;
        for (region, written) in regions.iter().zip(&mut written).filter(|(region, _)| is_second_view(region)) {
            guessed_views |= *written > 0 && region.confidence == Confidence::Heuristic;
            second_views = second_views.saturating_add(std::mem::take(written));
        }
        for (i, (region, written)) in regions.iter().zip(&written).enumerate() {
            let share = shares.entry(Subject::of(region)).or_default();
            share.size = share.size.saturating_add(region.range.len());
            share.in_core = share.in_core.saturating_add(region.in_core);
            share.written = share.written.saturating_add(*written);
            share.regions.push(i);
        }
        Tally { shares, written, second_views, guessed_views, of_ram: resident.is_some() }
    }

    pub(super) fn by_kind(&self, session: &Session<'_>) -> BTreeMap<Kind, u64> {
        let mut sums: BTreeMap<Kind, u64> = BTreeMap::new();
        for (region, written) in session.map().regions.iter().zip(&self.written) {
            let sum = sums.entry(region.kind).or_default();
            *sum = sum.saturating_add(*written);
        }
        sums
    }

    pub(super) fn total(&self) -> u64 {
        self.shares.values().map(|share| share.written).fold(0, u64::saturating_add)
    }
}

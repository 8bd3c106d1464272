//! Resident memory by kind and by range. The kernel's figures are per mapping. They are divided by means of the map,
//! with the core's contents as evidence.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::addr::{AddrRange, union};
use crate::analysis::zero::ZeroMap;
use crate::map::Kind;
use crate::memory::scan;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::range_map::RangeMap;
use crate::report::Resident;
use crate::resident::divide::{CoreEvidence, Divided, GroupFigures, GroupRange, divide};
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::targets::Residence;
use crate::targets::residence::{Figure, Figures, MappingResidence};

/// Resident memory of each kind.
pub struct ByKind {
    shares: BTreeMap<Kind, GroupFigures>,
    /// Figures of mappings that the core does not list.
    pub rest: GroupFigures,
}

impl ByKind {
    /// Figures of a kind. `None` if none of it is in a mapping with figures.
    pub fn of(&self, kind: Kind) -> Option<&GroupFigures> {
        self.shares.get(&kind).filter(|share| share.covered > 0)
    }

    /// The sum of all kinds.
    pub fn total(&self) -> GroupFigures {
        self.shares.values().fold(GroupFigures::default(), |mut sum, share| {
            sum.add(share);
            sum
        })
    }
}

/// Divides resident memory among kinds. `zeros` is the result of a scan, and makes the figures more exact.
pub fn by_kind(session: &Session<'_>, residence: &Residence, zeros: Option<&ZeroMap>) -> ByKind {
    let group = |kind: Kind| Kind::ALL.iter().position(|other| *other == kind);
    let regions = session.map().regions.iter();
    let parts: Vec<GroupRange> = regions
        .map(|r| GroupRange { range: r.range, group: group(r.kind), unbacked: r.kind == Kind::StackGuard })
        .collect();
    let Divided { groups, rest } = divide_by(session, residence, &parts, Kind::ALL.len(), zeros);
    ByKind { shares: Kind::ALL.iter().copied().zip(groups).collect(), rest }
}

/// Maximum number of ranges that may cover one address, for example a signal stack on a thread's stack. Further ranges
/// get no figures.
const PASSES: usize = 4;

/// Resident memory of each range, in the order of `ranges`. Ranges may overlap; each includes the overlap.
pub fn by_range(
    session: &Session<'_>,
    residence: &Residence,
    ranges: &[AddrRange],
    zeros: Option<&ZeroMap>,
) -> Vec<Resident> {
    let each: Vec<(AddrRange, usize)> = ranges.iter().copied().zip(0..).collect();
    by_group(session, residence, &each, ranges.len(), zeros)
}

/// Returns the resident memory of groups of ranges. Each range has the index of its group, less than `groups`. If
/// several ranges of one mapping are counted together, the result is more exact.
pub fn by_group(
    session: &Session<'_>,
    residence: &Residence,
    ranges: &[(AddrRange, usize)],
    groups: usize,
    zeros: Option<&ZeroMap>,
) -> Vec<Resident> {
    let shares = figures_by_group(session, residence, ranges, groups, zeros);
    shares.iter().map(|share| resident(residence, share)).collect()
}

/// The figures that [`by_group`] returns as columns.
pub fn figures_by_group(
    session: &Session<'_>,
    residence: &Residence,
    ranges: &[(AddrRange, usize)],
    groups: usize,
    zeros: Option<&ZeroMap>,
) -> Vec<GroupFigures> {
    let mut shares = vec![GroupFigures::default(); groups];
    let mut left: Vec<(AddrRange, usize)> = ranges.iter().copied().filter(|(range, _)| !range.is_empty()).collect();
    left.sort_unstable();
    let guards: Vec<AddrRange> =
        session.map().regions.iter().filter(|r| r.kind == Kind::StackGuard).map(|r| r.range).collect();
    for _ in 0..PASSES {
        if left.is_empty() {
            break;
        }
        let mut parts: Vec<GroupRange> = Vec::with_capacity(left.len());
        let mut over = Vec::new();
        for (range, group) in left {
            if parts.last().is_none_or(|last| last.range.end <= range.start) {
                parts.push(GroupRange { range, group: Some(group), unbacked: false });
            } else {
                over.push((range, group));
            }
        }
        add_guards(&mut parts, &guards);
        let divided = divide_by(session, residence, &parts, groups, zeros);
        shares.iter_mut().zip(&divided.groups).for_each(|(sum, share)| sum.add(share));
        left = over;
    }
    shares
}

/// Figures of each region of the map.
pub struct ByRegion {
    /// In the order of the map.
    pub regions: Vec<GroupFigures>,
    /// Parts of mappings that no region covers, because the core does not list them.
    pub unlisted: Vec<(AddrRange, GroupFigures)>,
}

/// Divides resident memory among the regions of the map. The sum of all figures is that of all mappings.
pub fn by_region(session: &Session<'_>, residence: &Residence, zeros: Option<&ZeroMap>) -> ByRegion {
    let regions = &session.map().regions;
    let mut parts: Vec<GroupRange> = regions
        .iter()
        .enumerate()
        .map(|(i, r)| GroupRange { range: r.range, group: Some(i), unbacked: r.kind == Kind::StackGuard })
        .collect();
    let covered: Vec<AddrRange> = regions.iter().map(|region| region.range).collect();
    let mut unlisted: Vec<AddrRange> = Vec::new();
    for mapping in residence.mappings.iter() {
        unlisted.extend(mapping.range.without(&covered));
    }
    let others = unlisted.iter().zip(regions.len()..);
    parts.extend(others.map(|(range, i)| GroupRange { range: *range, group: Some(i), unbacked: false }));
    parts.sort_unstable_by_key(|part| part.range);
    let groups = regions.len().saturating_add(unlisted.len());
    let mut figures = divide_by(session, residence, &parts, groups, zeros).groups;
    let others = figures.split_off(regions.len().min(figures.len()));
    ByRegion { regions: figures, unlisted: unlisted.into_iter().zip(others).collect() }
}

/// Returns the bytes that the process uses: in RAM, in hugetlbfs pages (not part of RSS), and in swap.
pub fn held(figures: &Figures) -> u64 {
    figures.get(Figure::Rss).saturating_add(figures.hugetlb()).saturating_add(figures.get(Figure::Swap))
}

/// Returns the bytes of each group that take up memory. These are resident and swapped bytes, or else bytes in pages of
/// the core that are not all zero. `None` if a part of the group is not known: memory that is not in the core may have
/// been written. `ranges` are disjoint. Each has the index of its group, less than `groups`.
pub fn written(session: &Session<'_>, ranges: &[(AddrRange, usize)], groups: usize) -> Vec<Option<u64>> {
    let mut out = vec![Some(0_u64); groups];
    let (mut by_figures, mut by_core) = (Vec::new(), Vec::new());
    for &(range, group) in ranges {
        match source(session, range) {
            Some(Source::Figures) => by_figures.push((range, group)),
            Some(Source::Core) => by_core.push((range, group)),
            None => out.iter_mut().skip(group).take(1).for_each(|sum| *sum = None),
        }
    }
    let mut add = |group: usize, bytes: u64| {
        if let Some(sum) = out.get_mut(group) {
            *sum = sum.map(|sum| sum.saturating_add(bytes));
        }
    };
    if let Some(residence) = with_rss(session).filter(|_| !by_figures.is_empty()) {
        let figures = figures_by_group(session, residence, &by_figures, groups, None);
        figures.iter().enumerate().for_each(|(group, share)| add(group, held(&share.figures)));
    }
    if by_core.is_empty() {
        return out;
    }
    let _phase = session.process.enter(Phase::ZeroPages);
    by_core.sort_unstable();
    let only: Vec<AddrRange> = by_core.iter().map(|(range, _)| *range).collect();
    let stats = scan::zero_pages(session.process.target(), &only, &Progress::silent());
    by_core.iter().zip(stats).for_each(|((_, group), stat)| add(*group, stat.written));
    out
}

/// Evidence of how much of a range takes up memory.
enum Source {
    /// The kernel's figures of the range's mapping.
    Figures,
    /// The range's pages in the core.
    Core,
}

fn source(session: &Session<'_>, range: AddrRange) -> Option<Source> {
    let in_figures = |residence: &Residence| {
        let mut at = range.start;
        while at < range.end {
            match residence.mapping_at(at) {
                // Each step moves past a mapping, so this ends.
                Some(mapping) if mapping.range.end > at => at = mapping.range.end,
                _ => return false,
            }
        }
        true
    };
    if with_rss(session).is_some_and(in_figures) {
        return Some(Source::Figures);
    }
    (session.process.space().dumped_in(range) == range.len()).then_some(Source::Core)
}

/// Whether [`written`] knows all of a range.
pub fn is_known(session: &Session<'_>, range: AddrRange) -> bool {
    source(session, range).is_some()
}

/// Returns the residence figures, if the kernel reported the RSS of mappings.
pub fn with_rss<'s>(session: &'s Session<'_>) -> Option<&'s Residence> {
    session.process.residence().filter(|known| known.reported.has(Figure::Rss))
}

/// Adds guard pages that no part covers.
fn add_guards(parts: &mut Vec<GroupRange>, guards: &[AddrRange]) {
    let free = |guard: &AddrRange| {
        let next = parts.partition_point(|part| part.range.end <= guard.start);
        parts.get(next).is_none_or(|part| part.range.start >= guard.end)
    };
    let unbacked = |range: &AddrRange| GroupRange { range: *range, group: None, unbacked: true };
    let between: Vec<GroupRange> = guards.iter().filter(|guard| free(guard)).map(unbacked).collect();
    parts.extend(between);
    parts.sort_by_key(|part| part.range);
}

fn divide_by(
    session: &Session<'_>,
    residence: &Residence,
    parts: &[GroupRange],
    groups: usize,
    zeros: Option<&ZeroMap>,
) -> Divided {
    let evidence = OnceCell::new();
    let held = |range: AddrRange, mapping: &MappingResidence| {
        evidence.get_or_init(|| Evidence::of(session, zeros)).held(range, mapping)
    };
    divide(residence, parts, groups, &held)
}

/// Evidence from the core about which memory was resident.
struct Evidence<'s, 'p> {
    session: &'s Session<'p>,
    zeros: Option<&'s ZeroMap>,
    /// Stacks with known stack pointers. Memory above the pointer was written page by page as the stack grew. It is
    /// likely resident even if it is zero. Memory below may not be.
    stacks: RangeMap<AddrRange>,
    used: RangeMap<AddrRange>,
}

impl<'s, 'p> Evidence<'s, 'p> {
    fn of(session: &'s Session<'p>, zeros: Option<&'s ZeroMap>) -> Evidence<'s, 'p> {
        let page = session.process.facts().page_size();
        let known = session.stacks().list.iter().filter_map(|stack| {
            let sp = stack.sp.filter(|sp| stack.stack.contains(*sp))?;
            Some((stack.stack, AddrRange::new(sp.align_down(page), stack.stack.end)))
        });
        let (stacks, used): (Vec<_>, Vec<_>) = known.unzip();
        let joined = |ranges| RangeMap::from_sorted(union(ranges)).unwrap_or_default();
        Evidence { session, zeros, stacks: joined(stacks), used: joined(used) }
    }

    fn held(&self, range: AddrRange, mapping: &MappingResidence) -> CoreEvidence {
        let within = |ranges: &RangeMap<AddrRange>, of: &dyn Fn(AddrRange) -> u64| -> u64 {
            ranges.overlapping(range).filter_map(|other| other.intersect(&range)).map(of).saturating_sum()
        };
        let others = self.data(range).saturating_sub(within(&self.stacks, &|stack| self.data(stack)));
        let likely = others.saturating_add(within(&self.used, &|used| used.len()));
        // A page of a file or of shared memory may be in RAM without being mapped here.
        let own = mapping.file.is_none() && !mapping.shared;
        let certain = self.zeros.filter(|_| own).map_or(0, |zeros| zeros.within(range).written);
        CoreEvidence { certain, likely }
    }

    /// Returns the number of bytes of `range` that the core has, without holes of the file.
    fn data(&self, range: AddrRange) -> u64 {
        let target = self.session.process.target();
        let places = self.session.process.space().places(range);
        places.flat_map(|place| target.extents().within(place)).map(|data| data.end - data.start).saturating_sum()
    }
}

/// Converts figures of a group to columns. `None` if the kernel did not report a figure, or if no mapping has figures.
pub fn resident(residence: &Residence, share: &GroupFigures) -> Resident {
    if share.covered == 0 {
        return Resident::default();
    }
    let reported = |figure: Figure, bytes: u64| residence.reported.has(figure).then_some(bytes);
    let one = |figure: Figure| reported(figure, share.figures.get(figure));
    Resident {
        rss: one(Figure::Rss),
        rss_estimated: reported(Figure::Rss, share.rss_estimated),
        pss: one(Figure::Pss),
        private_dirty: one(Figure::PrivateDirty),
        shared: reported(Figure::SharedClean, share.figures.shared()),
        swap: one(Figure::Swap),
        huge: reported(Figure::AnonHuge, share.figures.huge()),
        others_estimated: reported(Figure::Rss, share.others_estimated),
    }
}

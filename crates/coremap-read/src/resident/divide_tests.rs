use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::addr::{Addr, PAGE};
use crate::range_map::RangeMap;
use crate::targets::residence::{FigureSet, KnownPages};

fn range(from: u64, to: u64) -> AddrRange {
    AddrRange::new(Addr::new(from * PAGE), Addr::new(to * PAGE))
}

/// A private mapping with `rss` resident pages, all dirty.
fn dirty(from: u64, to: u64, rss: u64) -> MappingResidence {
    let bytes = rss * PAGE;
    let figures =
        Figures::default().with(Figure::Rss, bytes).with(Figure::Pss, bytes).with(Figure::PrivateDirty, bytes);
    MappingResidence { range: range(from, to), figures, ..MappingResidence::default() }
}

fn residence(mappings: Vec<MappingResidence>) -> Residence {
    let mappings = RangeMap::from_sorted(mappings).unwrap_or_default();
    Residence { mappings, ..Residence::default() }
}

fn part(from: u64, to: u64, group: usize) -> GroupRange {
    GroupRange { range: range(from, to), group: Some(group), unbacked: false }
}

fn nothing(_: AddrRange, _: &MappingResidence) -> CoreEvidence {
    CoreEvidence::default()
}

/// RSS in bytes, and the estimated bytes of it.
fn bytes(share: &GroupFigures) -> (u64, u64) {
    (share.figures.get(Figure::Rss), share.rss_estimated)
}

/// RSS in pages, and the estimated pages of it.
fn rss(share: &GroupFigures) -> (u64, u64) {
    (share.figures.get(Figure::Rss) / PAGE, share.rss_estimated / PAGE)
}

#[test]
fn what_one_group_has_alone_is_its_own() {
    let residence = residence(vec![dirty(0, 10, 3), dirty(20, 30, 4)]);
    let parts = [part(0, 4, 0), part(4, 10, 0), part(22, 24, 1)];
    let divided = divide(&residence, &parts, 2, &nothing);
    assert_eq!(rss(&divided.groups[0]), (3, 0), "two parts of one group");
    // The second mapping has 10 pages, and only 2 of them belong to a group. Of its 4 resident pages, 2 must be in the
    // other 8.
    let (of_group, of_rest) = (bytes(&divided.groups[1]), bytes(&divided.rest));
    assert_eq!(of_group.0 + of_rest.0, 4 * PAGE);
    assert_eq!(of_rest.0 - of_rest.1, 2 * PAGE, "2 of them do not fit into the group");
    assert_eq!(of_group.1, of_group.0, "none of the group's is certain");
}

#[test]
fn what_is_empty_or_full_is_exact() {
    let residence = residence(vec![dirty(0, 10, 10), dirty(10, 20, 0)]);
    let divided = divide(&residence, &[part(0, 3, 0), part(3, 12, 1), part(12, 20, 0)], 2, &nothing);
    assert_eq!([rss(&divided.groups[0]), rss(&divided.groups[1])], [(3, 0), (7, 0)]);
    assert_eq!(divided.groups.iter().map(|share| share.others_estimated).sum::<u64>(), 0);
    assert_eq!(divided.rest, GroupFigures::default());
}

#[test]
fn what_is_all_in_swap_is_exact() {
    let mut swapped = dirty(0, 3, 0);
    swapped.figures.set(Figure::Swap, 3 * PAGE);
    let divided = divide(&residence(vec![swapped]), &[part(0, 1, 0), part(1, 3, 1)], 2, &nothing);
    let of = |group: usize| (divided.groups[group].figures.get(Figure::Swap), divided.groups[group].others_estimated);
    assert_eq!([of(0), of(1)], [(PAGE, 0), (2 * PAGE, 0)]);
}

#[test]
fn single_pages_are_where_they_are() {
    let mut residence = residence(vec![dirty(0, 10, 5)]);
    residence.mappings = {
        let mut mapping = dirty(0, 10, 5);
        mapping.figures.set(Figure::Swap, 2 * PAGE);
        RangeMap::from_sorted(vec![mapping]).unwrap_or_default()
    };
    let runs =
        PageRuns { resident: vec![range(1, 4), range(6, 8)], swapped: vec![range(0, 1), range(9, 10)], private: None };
    let known = RangeMap::from_sorted(vec![KnownPages { range: range(0, 10), runs }]).unwrap_or_default();
    residence.pages = Some(Arc::new(known));
    let divided = divide(&residence, &[part(0, 3, 0), part(3, 9, 1)], 2, &|_, _| panic!("pages are known"));
    assert_eq!([rss(&divided.groups[0]), rss(&divided.groups[1]), rss(&divided.rest)], [(2, 0), (3, 0), (0, 0)]);
    let swap = |share: &GroupFigures| share.figures.get(Figure::Swap) / PAGE;
    assert_eq!([swap(&divided.groups[0]), swap(&divided.groups[1]), swap(&divided.rest)], [1, 0, 1]);
    let dirty = |share: &GroupFigures| share.figures.get(Figure::PrivateDirty) / PAGE;
    assert_eq!([dirty(&divided.groups[0]), dirty(&divided.groups[1])], [2, 3]);
    assert_eq!(divided.groups[0].others_estimated, 0);
}

#[test]
fn shared_pages_are_told_apart_where_that_is_known() {
    let mut mapping = dirty(0, 10, 4);
    mapping.figures.set(Figure::PrivateDirty, PAGE);
    mapping.figures.set(Figure::SharedDirty, 3 * PAGE);
    mapping.figures.set(Figure::Pss, PAGE + 3 * PAGE / 2);
    let runs = PageRuns { resident: vec![range(0, 4)], private: Some(vec![range(1, 2)]), swapped: Vec::new() };
    let known = RangeMap::from_sorted(vec![KnownPages { range: range(0, 10), runs }]).unwrap_or_default();
    let residence = Residence { pages: Some(Arc::new(known)), ..residence(vec![mapping]) };
    let divided = divide(&residence, &[part(0, 1, 0), part(1, 3, 1), part(3, 10, 2)], 3, &nothing);
    let of = |figure| divided.groups.iter().map(|share| share.figures.get(figure)).collect::<Vec<_>>();
    assert_eq!(of(Figure::PrivateDirty), [0, PAGE, 0]);
    assert_eq!(of(Figure::SharedDirty), [PAGE, PAGE, PAGE]);
    assert_eq!(of(Figure::Pss), [PAGE / 2, PAGE + PAGE / 2, PAGE / 2]);
    // The number of processes that share a page is not known.
    assert_eq!(divided.groups.iter().map(|share| share.others_estimated).collect::<Vec<_>>(), [PAGE, PAGE, PAGE]);
    let divided = divide(&residence, &[part(0, 1, 0), part(1, 2, 1), part(2, 10, 0)], 2, &nothing);
    assert_eq!(divided.groups[1].others_estimated, 0, "it has a private page alone");
}

#[test]
fn pages_of_another_moment_are_estimated_by_their_difference() {
    let mut residence = residence(vec![dirty(0, 10, 4)]);
    let runs = PageRuns { resident: vec![range(0, 5)], ..PageRuns::default() };
    let known = RangeMap::from_sorted(vec![KnownPages { range: range(0, 10), runs }]).unwrap_or_default();
    residence.pages = Some(Arc::new(known));
    let divided = divide(&residence, &[part(0, 1, 0), part(1, 10, 1)], 2, &nothing);
    let (a, b) = (bytes(&divided.groups[0]), bytes(&divided.groups[1]));
    assert_eq!(a.0 + b.0, 4 * PAGE, "what smaps said is kept");
    assert_eq!(b.0 - b.1, 3 * PAGE, "of its 4 pages one at most is not there");
    assert_eq!(a.0 - a.1, 0);
}

#[test]
fn a_core_tells_what_must_have_been_there() {
    let residence = residence(vec![dirty(0, 100, 12)]);
    let parts = [part(0, 50, 0), part(50, 100, 1)];
    // All resident pages are non-zero.
    let held = |range: AddrRange, _: &MappingResidence| match range.start.get() {
        0 => CoreEvidence { certain: 10 * PAGE, likely: 50 * PAGE },
        _ => CoreEvidence { certain: 2 * PAGE, likely: 50 * PAGE },
    };
    let divided = divide(&residence, &parts, 2, &held);
    assert_eq!([rss(&divided.groups[0]), rss(&divided.groups[1])], [(10, 0), (2, 0)]);
    // Two pages were resident and zero. They are where the file has no hole.
    let held = |range: AddrRange, _: &MappingResidence| match range.start.get() {
        0 => CoreEvidence { certain: 8 * PAGE, likely: 30 * PAGE },
        _ => CoreEvidence { certain: 2 * PAGE, likely: 2 * PAGE },
    };
    let divided = divide(&residence, &parts, 2, &held);
    assert_eq!([rss(&divided.groups[0]), rss(&divided.groups[1])], [(10, 2), (2, 0)]);
    // More in the core than was resident: the core is from another moment.
    let held = |_: AddrRange, _: &MappingResidence| CoreEvidence { certain: 20 * PAGE, likely: 20 * PAGE };
    let divided = divide(&residence, &parts, 2, &held);
    assert_eq!([rss(&divided.groups[0]), rss(&divided.groups[1])], [(6, 6), (6, 6)]);
}

#[test]
fn guard_pages_have_none() {
    let residence = residence(vec![dirty(0, 100, 12)]);
    let guard = GroupRange { range: range(0, 90), group: Some(0), unbacked: true };
    let divided = divide(&residence, &[guard, part(90, 100, 1)], 2, &nothing);
    // More than fits above the guard: it was no guard then.
    assert_eq!(divided.groups.iter().map(|share| rss(share).0).sum::<u64>(), 12);
    let residence = self::residence(vec![dirty(0, 100, 7)]);
    let divided = divide(&residence, &[guard, part(90, 100, 1)], 2, &nothing);
    assert_eq!([rss(&divided.groups[0]), rss(&divided.groups[1])], [(0, 0), (7, 0)], "all of it, for sure");
}

/// Mappings with consistent figures, as kernels report them.
fn mappings() -> impl Strategy<Value = Vec<MappingResidence>> {
    let one = (0u64..3, 1u64..40, any::<[u16; 10]>());
    proptest::collection::vec(one, 0..12).prop_map(|list| {
        let mut at = 1;
        let made = list.into_iter().map(|(gap, pages, random)| {
            let range = range(at + gap, at + gap + pages);
            at += gap + pages;
            let share = |i: usize, of: u64| (u64::from(random[i]) * (of + 1)) >> 16;
            let rss = share(0, pages);
            let dirty = share(1, rss);
            let clean = share(2, rss - dirty);
            let shared_dirty = share(3, rss - dirty - clean);
            let shared = rss - dirty - clean - shared_dirty;
            let swap = share(4, pages - rss);
            let values = [
                (Figure::Rss, rss),
                (Figure::PrivateDirty, dirty),
                (Figure::PrivateClean, clean),
                (Figure::SharedDirty, shared_dirty),
                (Figure::SharedClean, shared),
                (Figure::Pss, dirty + clean),
                (Figure::Anonymous, share(5, rss)),
                (Figure::AnonHuge, share(6, rss)),
                (Figure::Swap, swap),
                (Figure::SwapPss, share(7, swap)),
                (Figure::LazyFree, share(8, rss)),
            ];
            let mut figures = Figures::default();
            values.into_iter().for_each(|(figure, pages)| figures.set(figure, pages * PAGE));
            // A process's share of a shared page is no whole page.
            figures.set(Figure::Pss, figures.get(Figure::Pss) + share(9, shared * PAGE + shared_dirty * PAGE));
            MappingResidence { range, figures, ..MappingResidence::default() }
        });
        made.collect()
    })
}

fn parts() -> impl Strategy<Value = Vec<GroupRange>> {
    proptest::collection::vec((0u64..9000, 1u64..200_000, 0usize..5, any::<bool>()), 0..30).prop_map(|list| {
        let mut at = 0;
        let made = list.into_iter().map(|(gap, len, group, unbacked)| {
            let from = Addr::new(at + gap);
            at += gap + len;
            GroupRange {
                range: AddrRange::sized(from, len),
                group: (group < 4).then_some(group),
                unbacked: unbacked && group == 0,
            }
        });
        made.collect()
    })
}

fn sums(divided: &Divided) -> Figures {
    let mut sum = divided.rest.figures;
    divided.groups.iter().for_each(|share| sum.add(&share.figures));
    sum
}

proptest! {
    #[test]
    fn every_figure_adds_up(mappings in mappings(), parts in parts(), evidence in any::<[u64; 2]>()) {
        let residence = residence(mappings);
        let held = |range: AddrRange, _: &MappingResidence| {
            let likely = range.start.get().wrapping_mul(evidence[0] | 1) % (range.len() + 1);
            CoreEvidence { certain: range.end.get().wrapping_mul(evidence[1] | 1) % (likely + 1), likely }
        };
        let divided = divide(&residence, &parts, 4, &held);
        prop_assert_eq!(sums(&divided), residence.total());
        for share in divided.groups.iter().chain([&divided.rest]) {
            let rss = share.figures.get(Figure::Rss);
            let of = |figure| share.figures.get(figure);
            let four = of(Figure::PrivateDirty) + of(Figure::PrivateClean) + share.figures.shared();
            prop_assert_eq!(four, rss, "each page is one of four");
            prop_assert!(share.rss_estimated <= rss);
            prop_assert!(of(Figure::Pss) <= rss && of(Figure::Anonymous) <= rss && of(Figure::AnonHuge) <= rss);
        }
    }

    /// Random pages, known as a sum only or one by one.
    #[test]
    fn what_is_called_certain_is_there(
        pages in proptest::collection::vec(0u8..4, 1..80),
        zero in any::<u128>(),
        mut cuts in proptest::collection::vec(0u64..80, 0..6),
    ) {
        let there = |of: u8| {
            let all = pages.iter().enumerate().filter(move |(_, page)| **page == of);
            all.map(|(i, _)| range(i as u64, i as u64 + 1)).collect::<Vec<_>>()
        };
        let (resident, swapped) = (there(1), there(2));
        let len = pages.len() as u64;
        let mut mapping = dirty(0, len, resident.len() as u64);
        mapping.figures.set(Figure::Swap, swapped.len() as u64 * PAGE);
        let residence = residence(vec![mapping]);
        cuts.extend([0, len]);
        cuts.retain(|cut| *cut <= len);
        cuts.sort_unstable();
        cuts.dedup();
        let parts: Vec<GroupRange> = cuts.windows(2).enumerate().map(|(i, cut)| part(cut[0], cut[1], i % 3)).collect();
        // Some pages were resident and zero.
        let filled = |i: &AddrRange| zero >> ((i.start.get() / PAGE) % 128) & 1 == 1;
        let written: Vec<AddrRange> = resident.iter().chain(&swapped).copied().filter(filled).collect();
        let mut written = written;
        written.sort_unstable();
        let held = |range: AddrRange, _: &MappingResidence| CoreEvidence { certain: within(&written, range), likely: range.len() };
        let truth = |group: usize, runs: &[AddrRange]| {
            parts.iter().filter(|part| part.group == Some(group)).map(|part| within(runs, part.range)).sum::<u64>()
        };
        let divided = divide(&residence, &parts, 3, &held);
        for (group, share) in divided.groups.iter().enumerate() {
            let certain = share.figures.get(Figure::Rss) - share.rss_estimated;
            prop_assert!(certain <= truth(group, &resident), "{} of {}", certain, truth(group, &resident));
        }
        let runs = PageRuns { resident: resident.clone(), private: None, swapped: swapped.clone() };
        let known = RangeMap::from_sorted(vec![KnownPages { range: range(0, len), runs }]).unwrap_or_default();
        let exact = Residence { pages: Some(Arc::new(known)), ..residence };
        let divided = divide(&exact, &parts, 3, &nothing);
        for (group, share) in divided.groups.iter().enumerate() {
            prop_assert_eq!(share.figures.get(Figure::Rss), truth(group, &resident));
            prop_assert_eq!(share.figures.get(Figure::Swap), truth(group, &swapped));
            prop_assert_eq!((share.rss_estimated, share.others_estimated), (0, 0));
        }
    }

    #[test]
    fn figures_that_do_not_fit_together_are_kept_all_the_same(values in any::<[u64; 15]>(), parts in parts()) {
        let mut figures = Figures::default();
        Figure::ALL.into_iter().zip(values).for_each(|(figure, value)| figures.set(figure, value >> 4));
        let mapping = MappingResidence { range: range(1, 30), figures, ..MappingResidence::default() };
        let residence = Residence { reported: FigureSet::EMPTY, ..residence(vec![mapping]) };
        let divided = divide(&residence, &parts, 4, &nothing);
        prop_assert_eq!(sums(&divided), residence.total());
    }
}

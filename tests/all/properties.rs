//! Properties of the sweep, of range maps and of the resolved map, against
//! naive models that look at every byte.

use crate::support::builder::{CoreBuilder, Load, R, W, X};
use crate::support::notes;
use coremap::addr::{Addr, AddrRange, sweep, union};
use coremap::core::open::Core;
use coremap::diag::Diagnostics;
use coremap::map::{AddressMap, Base, Claim, Claims, Confidence, Kind, Owner, audit};
use coremap::progress::Progress;
use coremap::range_map::{RangeMap, Ranged};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Addresses that the models look at one by one.
const SPACE: u64 = 256;

fn range() -> impl Strategy<Value = AddrRange> {
    (0..SPACE, 0..48u64).prop_map(|(at, len)| AddrRange::sized(Addr::new(at), len.min(SPACE - at)))
}

fn ranked() -> impl Strategy<Value = Vec<(AddrRange, u8)>> {
    prop::collection::vec((range(), 0..6u8), 0..40)
}

/// Index of the winner of each address: highest rank, then the earlier item.
fn naive(items: &[(AddrRange, u8)]) -> Vec<Option<usize>> {
    (0..SPACE)
        .map(|a| {
            let over = items.iter().enumerate().filter(|(_, (r, _))| r.contains(Addr::new(a)));
            over.max_by_key(|&(i, &(_, rank))| (rank, std::cmp::Reverse(i))).map(|(i, _)| i)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn the_sweep_gives_each_byte_to_the_highest_rank(items in ranked()) {
        let pieces = sweep(&items);
        let mut got = vec![None; SPACE as usize];
        for (range, i) in &pieces {
            prop_assert!(!range.is_empty());
            for a in range.start.get()..range.end.get() {
                prop_assert_eq!(got[a as usize].replace(*i), None, "byte {} twice", a);
            }
        }
        prop_assert_eq!(got, naive(&items));
        for w in pieces.windows(2) {
            prop_assert!(w[0].0.end <= w[1].0.start, "unsorted: {:?}", w);
            // Maximal: neighbours that touch belong to different items.
            prop_assert!(w[0].0.end < w[1].0.start || w[0].1 != w[1].1, "not joined: {:?}", w);
        }
        prop_assert!(pieces.len() <= 2 * items.len());
    }

    #[test]
    fn the_union_covers_what_its_parts_cover(ranges in prop::collection::vec(range(), 0..40)) {
        let joined = union(ranges.clone());
        for a in (0..SPACE).map(Addr::new) {
            let inside = joined.iter().filter(|r| r.contains(a)).count();
            prop_assert_eq!(inside, usize::from(ranges.iter().any(|r| r.contains(a))));
        }
        // Parts that touch are one.
        prop_assert!(joined.windows(2).all(|w| w[0].end < w[1].start));
    }

    #[test]
    fn range_map_lookups_agree_with_a_byte_array(items in ranked(), probe in range()) {
        let map: RangeMap<AddrRange> = RangeMap::resolve(&items, |_, v| *v, |range, _| range);
        let bytes = naive(&items);
        for a in 0..SPACE {
            prop_assert_eq!(map.at(Addr::new(a)).is_some(), bytes[a as usize].is_some());
            prop_assert!(map.at(Addr::new(a)).is_none_or(|r| r.range().contains(Addr::new(a))));
        }
        prop_assert_eq!(map.covered(), bytes.iter().flatten().count() as u64);
        let over: Vec<_> = map.overlapping(probe).copied().collect();
        let want: Vec<_> = map.iter().filter(|r| r.intersect(&probe).is_some()).copied().collect();
        prop_assert_eq!(over, want);
        let next = map.index_at_or_above(probe.start);
        prop_assert!(map[..next].iter().all(|r| r.end <= probe.start));
        prop_assert!(map[next..].iter().all(|r| r.end > probe.start));
    }

    #[test]
    fn a_range_map_takes_only_what_is_sorted_and_disjoint(ranges in prop::collection::vec(range(), 0..6)) {
        let good = ranges.iter().all(|r| !r.is_empty()) && ranges.windows(2).all(|w| w[0].end <= w[1].start);
        prop_assert_eq!(RangeMap::from_sorted(ranges).is_some(), good);
    }
}

/// Lowest address of the synthetic core; the model's bytes are 16 each.
const BASE: u64 = 0x10_0000;
const UNIT: u64 = 16;

fn placed() -> impl Strategy<Value = (u64, u64)> {
    (0..SPACE, 1..32u64).prop_map(|(at, len)| (BASE + UNIT * at, UNIT * len))
}

#[derive(Clone, Debug)]
struct Mapped {
    at: u64,
    memsz: u64,
    filesz: u64,
    flags: u32,
}

fn mapped() -> impl Strategy<Value = Mapped> {
    (placed(), any::<Index>(), select(vec![0, R, R | W, R | X, R | W | X]))
        .prop_map(|((at, memsz), cut, flags)| Mapped { at, memsz, filesz: cut.index(memsz as usize + 1) as u64, flags })
}

fn claim() -> impl Strategy<Value = Claim> {
    let confidence = select(vec![Confidence::Heuristic, Confidence::Derived, Confidence::Exact]);
    let kind = select(vec![
        Kind::AnonRW,
        Kind::Image,
        Kind::Malloc,
        Kind::Allocator,
        Kind::Stack,
        Kind::StackGuard,
        Kind::GCHeap,
    ]);
    let owner = select(vec![Owner::None, Owner::Thread(1), Owner::Thread(2)]);
    (placed(), confidence, kind, owner, 0..3u8).prop_map(|((at, len), confidence, kind, owner, n)| Claim {
        range: AddrRange::sized(Addr::new(at), len),
        kind,
        confidence,
        owner,
        detail: format!("detail {n}").into(),
        evidence: "made up".into(),
    })
}

fn core_of(loads: &[Mapped], files: &[(u64, u64)]) -> Core {
    let list: Vec<_> = files.iter().map(|&(at, len)| (at, at + len, 0, "/a/file")).collect();
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(1, 0, 0, 0, 0))
        .note(notes::files(4096, &list))
        .loads(loads.iter().map(|l| Load::at(l.at).flags(l.flags).memsz(l.memsz).bytes(vec![7; l.filesz as usize])))
        .write();
    Core::open(core.path(), &Diagnostics::default(), &Progress::silent()).unwrap()
}

/// What a map says of each region, without indices that depend on the claims.
fn labels(map: &AddressMap) -> Vec<(AddrRange, Kind, String, Confidence, Owner, u64)> {
    let row = |r: &coremap::map::Region| (r.range, r.kind, r.detail.to_string(), r.confidence, r.owner, r.in_core);
    map.regions.iter().map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(250) })]

    #[test]
    fn the_map_does_not_depend_on_the_order_of_claims(
        loads in prop::collection::vec(mapped(), 1..8),
        files in prop::collection::vec(placed(), 0..4),
        claims in prop::collection::vec(claim(), 0..24).prop_flat_map(|c| (Just(c.clone()), Just(c).prop_shuffle())),
    ) {
        let core = core_of(&loads, &files);
        let one = AddressMap::resolve(&core.facts, Base::of(&core.facts), Claims::from(claims.0));
        let other = AddressMap::resolve(&core.facts, Base::of(&core.facts), Claims::from(claims.1));
        prop_assert_eq!(labels(&one), labels(&other));
    }

    #[test]
    fn every_byte_of_the_base_has_one_label_and_it_is_the_best_claims(
        loads in prop::collection::vec(mapped(), 1..8),
        files in prop::collection::vec(placed(), 0..4),
        claims in prop::collection::vec(claim(), 0..24),
    ) {
        let core = core_of(&loads, &files);
        let map = AddressMap::resolve(&core.facts, Base::of(&core.facts), Claims::from(claims.clone()));
        for i in audit::invariants(&map, &core.facts) {
            prop_assert!(i.ok, "{}: {}", i.name, i.detail);
        }
        // The base, byte by byte, from the numbers the core was made of.
        let in_load = |a: u64| loads.iter().any(|l| (l.at..l.at + l.memsz).contains(&a));
        let in_file = |a: u64| files.iter().any(|&(at, len)| (at..at + len).contains(&a));
        let dumped = |a: u64| loads.iter().any(|l| (l.at..l.at + l.filesz).contains(&a));
        let mut in_core = 0;
        for a in BASE..BASE + UNIT * (SPACE + 32) {
            let regions: Vec<_> = map.regions.iter().filter(|r| r.range.contains(Addr::new(a))).collect();
            prop_assert_eq!(regions.len(), usize::from(in_load(a) || in_file(a)), "byte {:#x}", a);
            in_core += u64::from(dumped(a));
            let best = claims.iter().filter(|c| c.range.contains(Addr::new(a))).map(|c| (c.confidence, c.kind.specificity())).max();
            if let (Some(region), Some(best)) = (regions.first(), best) {
                prop_assert_eq!((region.confidence, region.kind.specificity()), best, "byte {:#x}", a);
            }
        }
        prop_assert_eq!(map.regions.iter().map(|r| r.in_core).sum::<u64>(), in_core);
        prop_assert_eq!(core.facts.space.dumped_total(), in_core);
    }
}

/// Mappings that the VM's collector points to are the collector's only by a guess. An allocator that was recognised, and
/// walked malloc, have them, however the claims are ordered.
#[test]
fn a_proven_allocator_has_memory_before_a_guess_of_the_collector() {
    let loads = [Mapped { at: BASE, memsz: UNIT * 8, filesz: UNIT * 8, flags: R | W }];
    let core = core_of(&loads, &[]);
    let range = AddrRange::sized(Addr::new(BASE), UNIT * 8);
    let claim = |kind, confidence| Claim {
        range,
        kind,
        confidence,
        owner: Owner::None,
        detail: "made up".into(),
        evidence: "made up".into(),
    };
    for proven in [Kind::Allocator, Kind::Malloc] {
        for guess in [Kind::GCBookkeeping, Kind::VmData] {
            let both = [claim(guess, Confidence::Heuristic), claim(proven, Confidence::Derived)];
            for claims in [both.to_vec(), both.iter().rev().cloned().collect()] {
                let map = AddressMap::resolve(&core.facts, Base::of(&core.facts), Claims::from(claims));
                let kinds: Vec<Kind> = map.regions.iter().map(|region| region.kind).collect();
                assert_eq!(kinds, [proven], "{guess:?}");
            }
        }
    }
}

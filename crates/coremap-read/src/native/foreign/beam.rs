//! BEAM (Erlang, Elixir): carriers of its allocators.
//!
//! A `Carrier_t` has size and flags, next, prev, and the allocator. The carriers of one allocator are a doubly linked
//! list. Multi-block carriers are aligned to 256 KiB, single-block carriers to a page. Single-block carriers that were
//! reused for another size have stale links. But their one block has a size too, and several of them share an
//! allocator. Source: erts/emulator/beam/erl_alloc_util.h of OTP 18 to 29.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange, PAGE};
use crate::limits;
use crate::map::Kind;
use crate::memory::walk::Walks;
use crate::phase::Phase;

/// Alignment of multi-block carriers in bytes (ERTS_SACRR_UNIT_SZ).
const UNIT: u64 = 256 << 10;

/// Flags of a size (SBC_CARRIER, MSEG_CARRIER), and of the allocator's address (busy, in its pool).
const FLAGS: u64 = 7;

/// SBC_CARRIER and MSEG_CARRIER: a single block in memory mapped from the system.
const SINGLE: u64 = 3;

/// Bits of the size in a block header. The bits below and above are flags.
const BLOCK_SIZE: u64 = 0x00ff_ffff_ffff_fff8;
const BLOCK_FLAGS: u64 = 7;

/// Minimum number of single-block carriers with the same allocator.
const ENOUGH: usize = 3;

/// Size in bytes of `Carrier_t`. The first block follows it.
const CARRIER_HEAD: u64 = 32;

/// The carriers found so far, and the state of the search.
struct Carriers<'a> {
    scene: &'a Scene<'a>,
    known: BTreeSet<AddrRange>,
    /// Carriers of a known allocator that are in no list.
    cached: BTreeSet<AddrRange>,
    allocators: BTreeSet<Addr>,
    walks: Walks,
}

struct Head {
    range: AddrRange,
    flags: u64,
    next: Addr,
    prev: Addr,
    allocator: Addr,
}

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let Some(image) = scene.named(&["beam"]) else { return };
    let walks = Walks::new(Phase::Foreign, limits::MAX_FOREIGN_RANGES);
    let mut carriers =
        Carriers { scene, known: BTreeSet::new(), cached: BTreeSet::new(), allocators: BTreeSet::new(), walks };
    carriers.look(true);
    // The second pass accepts carriers without list neighbours if their allocator is known. They may lead to more.
    carriers.look(false);
    let Carriers { known, cached, allocators, .. } = carriers;
    let single: Vec<AddrRange> = singles(scene).into_iter().filter(|range| !known.contains(range)).collect();
    let evidence = format!("{} carriers of {} allocators; list neighbours point back", known.len(), allocators.len());
    let cached: Vec<AddrRange> = cached.difference(&known).copied().collect();
    found.add(known.into_iter().collect(), &Label::derived(Kind::RuntimeHeap, image.owner, "BEAM: carriers", evidence));
    let evidence = format!("{} carriers filled by one block; other carriers have the same allocator", single.len());
    found.add(single, &Label::derived(Kind::RuntimeHeap, image.owner, "BEAM: single-block carriers", evidence));
    let evidence = "carrier header in no list, with an allocator of other carriers: freed and cached";
    found.add(cached, &Label::heuristic(Kind::RuntimeHeap, image.owner, "BEAM: cached free carriers", evidence));
}

fn head(scene: &Scene<'_>, at: Addr) -> Option<Head> {
    let [size, next, prev, allocator] = scene.words(at)?;
    let range = AddrRange::sized(at, size & !FLAGS);
    let [next, prev] = [next, prev].map(Addr::new);
    let allocator = Addr::new(allocator & !FLAGS);
    let sound = (range.len() >= PAGE)
        && range.len().is_multiple_of(PAGE)
        && [next, prev].iter().all(|a| a.is_aligned(PAGE))
        && !allocator.is_null()
        && scene.memory.readable(allocator, 8) == 8
        && scene.unclaimed_at(at).is_some_and(|open| open.covers(&range));
    sound.then_some(Head { range, flags: size & FLAGS, next, prev, allocator })
}

/// Returns carriers that are filled by one block and share their allocator with others. Carriers that mseg caches are
/// included, since nothing in them differs.
fn singles(scene: &Scene<'_>) -> Vec<AddrRange> {
    let mut by_allocator: BTreeMap<Addr, Vec<AddrRange>> = BTreeMap::new();
    for range in scene.unclaimed() {
        let mut at = range.start.align_up(PAGE);
        while let Some(head) = head(scene, at) {
            let block = scene.memory.peek_u64(at.saturating_add(CARRIER_HEAD)).unwrap_or_default();
            let fits = block & BLOCK_FLAGS == BLOCK_FLAGS && block & BLOCK_SIZE <= head.range.len() - CARRIER_HEAD;
            if head.flags == SINGLE && fits && block & BLOCK_SIZE > head.range.len() / 2 {
                scene.keep(at.saturating_add(CARRIER_HEAD), 1);
                scene.keep(at, 4);
                by_allocator.entry(head.allocator).or_default().push(head.range);
            }
            at = head.range.end;
        }
    }
    by_allocator.into_values().filter(|list| list.len() >= ENOUGH).flatten().collect()
}

/// Whether the previous and next carriers link back. `None` if there are neither.
fn is_linked(scene: &Scene<'_>, at: Addr, head: &Head) -> Option<bool> {
    if head.next.is_null() && head.prev.is_null() {
        return None;
    }
    let back =
        |a: Addr, word: usize| a.is_null() || scene.words::<3>(a).is_some_and(|w| w.get(word) == Some(&at.get()));
    Some(back(head.next, 2) && back(head.prev, 1))
}

impl Carriers<'_> {
    /// Checks all positions where carriers may begin. With `linked`, only carriers whose neighbours link back are
    /// accepted, otherwise those of a known allocator.
    fn look(&mut self, linked: bool) {
        let scene = self.scene;
        let mut take = |at| if linked { self.linked(at) } else { self.of_known(at) };
        for range in scene.unclaimed() {
            let mut at = range.start.align_up(PAGE);
            // Carriers follow each other where mappings were joined.
            while let Some(head) = take(at) {
                at = head.range.end;
            }
        }
        scene.each_aligned(UNIT, |at| {
            take(at);
            true
        });
    }

    /// Adds the carrier at `at` and the carriers of its list, if the links lead back.
    fn linked(&mut self, at: Addr) -> Option<Head> {
        let first = head(self.scene, at)?;
        if self.known.contains(&first.range) {
            return Some(first);
        }
        if is_linked(self.scene, at, &first) != Some(true) {
            return None;
        }
        for forward in [true, false] {
            // Both directions start at the same carrier. A ring or a list that was visited ends the walk.
            let mut walk = self.walks.begin_own_set();
            let mut at = at;
            while !at.is_null() && walk.step(at).is_ok() {
                let Some(head) = head(self.scene, at).filter(|h| is_linked(self.scene, at, h) == Some(true)) else {
                    break;
                };
                self.known.insert(head.range);
                self.scene.keep(at, 4);
                self.allocators.insert(head.allocator);
                at = if forward { head.next } else { head.prev };
            }
        }
        Some(first)
    }

    /// Adds the carrier at `at` if its allocator is known, whether or not another carrier links to it.
    fn of_known(&mut self, at: Addr) -> Option<Head> {
        let head = head(self.scene, at).filter(|h| self.allocators.contains(&h.allocator))?;
        match is_linked(self.scene, at, &head) {
            Some(true) => return self.linked(at),
            None => {
                self.scene.keep(at, 4);
                self.known.insert(head.range)
            }
            Some(false) => {
                self.scene.keep(at, 4);
                self.cached.insert(head.range)
            }
        };
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const A: u64 = 0x7f00_0000_0000;
    const B: u64 = A + UNIT;

    fn recognise(back: u64, allocator: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64);
        lab.map(A, UNIT as usize).put(A, &[UNIT | 1, B, 0, 0x1_0000]);
        lab.map(B, UNIT as usize).put(B, &[UNIT | 1, 0, back, 0x1_0000]);
        lab.map(B + UNIT, 2 * PAGE as usize).put(B + UNIT, &[(2 * PAGE) | 3, 0, 0, allocator]);
        lab.recognise(find, ("beam.smp", range(0x1_0000, 64)), &[range(A, 2 * UNIT + 2 * PAGE)])
    }

    #[test]
    fn carriers_that_lead_to_each_other_vouch_for_their_allocator() {
        assert_eq!(recognise(A, 0x1_0000)[0].0, range(A, 2 * UNIT + 2 * PAGE));
        assert_eq!(recognise(A, 0x1_0008)[0].0, range(A, 2 * UNIT));
    }

    #[test]
    fn carriers_of_one_block_share_an_allocator_and_are_filled() {
        let recognise = |count: u64, block: u64| {
            let mut lab = Lab::default();
            lab.map(0x1_0000, 64).map(A, (count * 4 * PAGE) as usize);
            for i in 0..count {
                let at = A + i * 4 * PAGE;
                // Stale links.
                lab.put(at, &[(4 * PAGE) | 3, A + 64 * PAGE, 0, 0x1_0000, block]);
            }
            lab.recognise(find, ("beam.smp", range(0x1_0000, 64)), &[range(A, count * 4 * PAGE)])
        };
        let found = recognise(3, 0x3f00 | 7);
        assert_eq!((found[0].0, found[0].1.detail.as_str()), (range(A, 12 * PAGE), "BEAM: single-block carriers"));
        assert!(recognise(2, 0x3f00 | 7).is_empty());
        assert!(recognise(3, 0x4000 | 7).is_empty());
        assert!(recognise(3, 0x3f00).is_empty());
    }

    #[test]
    fn a_neighbour_that_does_not_lead_back_proves_nothing() {
        assert!(recognise(A + PAGE, 0x1_0000).is_empty());
    }
}

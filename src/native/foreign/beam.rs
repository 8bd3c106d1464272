//! BEAM (Erlang, Elixir): carriers of its allocators.
//!
//! `Carrier_t`: size and flags, next, prev, allocator. Carriers of one allocator are a list that leads both ways. Those for many blocks
//! are aligned to 256 KiB, those for one begin on a page. Source: erts/emulator/beam/erl_alloc_util.h of OTP 18 to
//! 26; measured on 25.

use std::collections::BTreeSet;

use super::found::{Found, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Kind;
use crate::memory::walk::Walks;
use crate::phase::Phase;

/// ERTS_SACRR_UNIT_SZ, and the page that a carrier of one block begins on.
const UNIT: u64 = 256 << 10;
const PAGE: u64 = 4096;

/// Flags of a size (SBC_CARRIER, MSEG_CARRIER), and of the allocator's address (busy, in its pool).
const FLAGS: u64 = 7;

/// Places that lead to carriers which no list has led to before.
struct Carriers<'a> {
    scene: &'a Scene<'a>,
    known: BTreeSet<AddrRange>,
    /// Of a known allocator, but in no list.
    cached: BTreeSet<AddrRange>,
    allocators: BTreeSet<Addr>,
    walks: Walks,
}

/// A carrier's head.
struct Head {
    range: AddrRange,
    next: Addr,
    prev: Addr,
    allocator: Addr,
}

pub(super) fn find(scene: &Scene<'_>, found: &mut Found) {
    let Some(image) = scene.named(&["beam"]) else { return };
    let walks = Walks::new(Phase::Foreign, limits::MAX_FOREIGN_RANGES);
    let mut carriers =
        Carriers { scene, known: BTreeSet::new(), cached: BTreeSet::new(), allocators: BTreeSet::new(), walks };
    carriers.look(true);
    // What has no neighbour to vouch for it has an allocator that others have; and it leads on to more.
    carriers.look(false);
    let Carriers { known, cached, allocators, .. } = carriers;
    let evidence =
        format!("{} carriers of {} allocators, whose neighbours in the list lead back", known.len(), allocators.len());
    let cached: Vec<AddrRange> = cached.difference(&known).copied().collect();
    found.add(known.into_iter().collect(), &Label::derived(Kind::RuntimeHeap, image.owner, "BEAM: carriers", evidence));
    let evidence = "a carrier's head with an allocator that others have, in no list: freed, and kept for the next";
    found.add(cached, &Label::heuristic(Kind::RuntimeHeap, image.owner, "BEAM: carriers kept free", evidence));
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
        && scene.open_at(at).is_some_and(|open| open.covers(&range));
    sound.then_some(Head { range, next, prev, allocator })
}

/// Whether the carriers before and behind lead back; `None` where there are neither.
fn is_linked(scene: &Scene<'_>, at: Addr, head: &Head) -> Option<bool> {
    if head.next.is_null() && head.prev.is_null() {
        return None;
    }
    let back =
        |a: Addr, word: usize| a.is_null() || scene.words::<3>(a).is_some_and(|w| w.get(word) == Some(&at.get()));
    Some(back(head.next, 2) && back(head.prev, 1))
}

impl Carriers<'_> {
    /// Look at all places where carriers may begin, for those that others vouch for or the rest.
    fn look(&mut self, linked: bool) {
        let scene = self.scene;
        let mut take = |at| if linked { self.linked(at) } else { self.of_known(at) };
        for range in scene.open() {
            let mut at = range.start.align_up(PAGE);
            // One behind the other, where mappings became one.
            while let Some(head) = take(at) {
                at = head.range.end;
            }
        }
        scene.each_aligned(UNIT, |at| {
            take(at);
            true
        });
    }

    /// The carrier at `at` and those of its list, if their links prove them.
    fn linked(&mut self, at: Addr) -> Option<Head> {
        let first = head(self.scene, at)?;
        if self.known.contains(&first.range) {
            return Some(first);
        }
        if is_linked(self.scene, at, &first) != Some(true) {
            return None;
        }
        for forward in [true, false] {
            // Both ways from the same carrier: a ring or a list that was seen ends the walk.
            let mut walk = self.walks.alone();
            let mut at = at;
            while !at.is_null() && walk.step(at).is_ok() {
                let Some(head) = head(self.scene, at).filter(|h| is_linked(self.scene, at, h) == Some(true)) else {
                    break;
                };
                self.known.insert(head.range);
                self.allocators.insert(head.allocator);
                at = if forward { head.next } else { head.prev };
            }
        }
        Some(first)
    }

    /// The carrier at `at`, whoever leads to it, if it is of an allocator that is known.
    fn of_known(&mut self, at: Addr) -> Option<Head> {
        let head = head(self.scene, at).filter(|h| self.allocators.contains(&h.allocator))?;
        match is_linked(self.scene, at, &head) {
            Some(true) => return self.linked(at),
            None => self.known.insert(head.range),
            Some(false) => self.cached.insert(head.range),
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

    fn ask(back: u64, allocator: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64);
        lab.map(A, UNIT as usize).put(A, &[UNIT | 1, B, 0, 0x1_0000]);
        lab.map(B, UNIT as usize).put(B, &[UNIT | 1, 0, back, 0x1_0000]);
        lab.map(B + UNIT, 2 * PAGE as usize).put(B + UNIT, &[(2 * PAGE) | 3, 0, 0, allocator]);
        lab.ask(find, ("beam.smp", range(0x1_0000, 64)), &[range(A, 2 * UNIT + 2 * PAGE)])
    }

    #[test]
    fn carriers_that_lead_to_each_other_vouch_for_their_allocator() {
        assert_eq!(ask(A, 0x1_0000)[0].0, range(A, 2 * UNIT + 2 * PAGE));
        assert_eq!(ask(A, 0x1_0008)[0].0, range(A, 2 * UNIT));
    }

    #[test]
    fn a_neighbour_that_does_not_lead_back_proves_nothing() {
        assert!(ask(A + PAGE, 0x1_0000).is_empty());
    }
}

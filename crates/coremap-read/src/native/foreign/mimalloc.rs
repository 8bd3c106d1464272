//! mimalloc: arenas of 3.x, and segments of earlier versions.
//!
//! `mi_arena_t` of 3.x begins with its memory (address, size, kind), then `subproc`. That one is in the library's data,
//! and points back to the arena.
//!
//! In earlier versions, each segment has a cookie. `_mi_ptr_cookie(segment)` is the segment's address XOR the main
//! heap's cookie, which is a random number in the library's data. So a segment is proven if a word in its head, XORed
//! with the segment's address, is a number in that data. The size in slices follows the cookie.
//!
//! Source: mimalloc types.h (`mi_segment_t`, `mi_memid_t`, `mi_arena_t`) of 1.6 to 3.6.

use std::collections::HashMap;

use super::findings::{Findings, Label};
use super::scene::{Image, Pointer, Scene};
use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::units::count;

/// Alignment of segments in bytes: 32 MiB since 2.0, 4 MiB before.
const SEGMENT: u64 = 32 << 20;
const OLD_SEGMENT: u64 = 4 << 20;

/// MI_SEGMENT_SLICE_SIZE
const SLICE: u64 = 64 << 10;

/// Maximum number of slices of a segment (1 TiB).
const MAX_SLICES: u64 = 1 << 24;

/// Words of an arena up to its subproc: 4 in 3.0 and 3.6.
const MEMID_WORDS: usize = 8;

/// Bytes of a subproc in which its list of arenas is expected: 160 pointers, and little else.
const MAX_SUBPROC: u64 = 16 << 10;

/// Maximum size in bytes of a program's data that is searched for the cookie. It applies if no module is named
/// mimalloc.
const MAX_PROGRAM_DATA: u64 = 1 << 20;

/// Whether a number can be a cookie: random in all bits, unlike addresses and counts.
fn is_random(word: u64) -> bool {
    let high = word >> 48;
    high != 0 && high != 0xffff && word & 0xffff_ffff != 0
}

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let named = |i: &&Image<'_>| i.name.starts_with("libmimalloc");
    let linked =
        |i: &&Image<'_>| i.is_program && (i.data_len() <= MAX_PROGRAM_DATA || i.exports(scene.memory, &["mi_malloc"]));
    let images = scene.images.iter().find(named).or_else(|| scene.images.iter().find(linked));
    let Some(image) = images else { return };
    arenas(scene, image, found);
    let mut data = HashMap::new();
    for part in &image.writable {
        scene.each_word(*part, |addr, word| {
            if is_random(word) {
                data.insert(word, addr);
            }
        });
    }
    if data.is_empty() {
        return;
    }
    let mut segments = Vec::new();
    let mut first = None;
    scene.each_aligned(OLD_SEGMENT, |at| {
        // mi_segment_t begins with the memory's id, a commit mask of 64 bytes and links, so the cookie is among its
        // first 64 words.
        let Some(words) = scene.words::<64>(at) else { return true };
        let of = |w: &u64| data.get(&(w ^ at.get())).filter(|_| *w != 0);
        let cookie = words.iter().enumerate().find_map(|(i, w)| Some((i, *of(w)?)));
        if let Some((i, addr)) = cookie {
            // The random number in the data, and the cookie with the count after it.
            scene.keep(addr, 1);
            scene.keep(at.saturating_add(8 * i as u64), 2);
            first.get_or_insert(at);
            let slices = words.get(i + 1).copied().filter(|n| (1..=MAX_SLICES).contains(n) && at.is_aligned(SEGMENT));
            let len = slices.map_or(if at.is_aligned(SEGMENT) { SEGMENT } else { OLD_SEGMENT }, |n| n * SLICE);
            segments.push(AddrRange::sized(at, len));
        }
        true
    });
    let Some(first) = first else { return };
    let evidence = format!(
        "{} (first: {first}) with a valid cookie: segment address XOR a random number in {}'s data",
        count(segments.len() as u64, "segment"),
        image.name
    );
    found.add(segments, &Label::derived(Kind::Allocator, image.owner, "mimalloc", evidence));
}

/// Finds arenas of 3.x through words in the library's data.
fn arenas(scene: &Scene<'_>, image: &Image<'_>, found: &mut Findings) {
    let pointers = scene.pointers(image, SLICE);
    let mut list: Vec<AddrRange> = pointers.iter().filter_map(|p| arena(scene, image, p)).collect();
    list.sort_unstable();
    list.dedup();
    let evidence = format!("{} arenas whose subproc, in {}'s data, points back to each", list.len(), image.name);
    found.add(list, &Label::derived(Kind::Allocator, image.owner, "mimalloc", evidence));
}

/// Returns the memory of an arena, if `pointer` is in the subproc that the arena leads to.
fn arena(scene: &Scene<'_>, image: &Image<'_>, pointer: &Pointer) -> Option<AddrRange> {
    let words: [u64; MEMID_WORDS] = scene.words(pointer.to)?;
    let base = Addr::new(words[0]);
    let range = AddrRange::new(base, base.checked_add(words[1])?);
    let sound = base.is_aligned(4096)
        && words[1].is_multiple_of(4096)
        && range.contains(pointer.to)
        && scene.unclaimed_at(base).is_some_and(|open| open.covers(&range));
    // The number of words between address and subproc differs by version.
    let in_data = |at: Addr| image.writable.iter().any(|part| part.contains(at));
    let rest = words.iter().skip(2).map(|w| Addr::new(*w));
    let leads_back =
        |subproc: Addr| in_data(subproc) && pointer.at.checked_since(subproc).is_some_and(|after| after < MAX_SUBPROC);
    let found = sound && rest.into_iter().any(leads_back);
    if found {
        scene.keep(pointer.to, 2);
    }
    found.then_some(range)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const COOKIE: u64 = 0x3f12_8899_aabb_ccdd;

    fn lab(cookie: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x10_0000, 0x1000).put(0x10_0100, &[7, COOKIE]);
        lab.map(0x3_0000_0000, 0x10000).put(0x3_0000_0080, &[3, cookie ^ 0x3_0000_0000, 512]);
        lab.recognise(find, ("libmimalloc.so.2", range(0x10_0000, 0x1000)), &[range(0x3_0000_0000, 0x10000)])
    }

    #[test]
    fn a_cookie_proves_a_segment_and_another_number_does_not() {
        let found = lab(COOKIE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, range(0x3_0000_0000, 512 << 16));
        assert!(lab(COOKIE ^ 2).is_empty());
    }

    #[test]
    fn an_arena_and_its_subproc_lead_to_each_other() {
        const ARENA: u64 = 0x320_3000_0000;
        let recognise = |addr: u64, subproc: u64, size: u64| {
            let mut lab = Lab::default();
            lab.map(0x10_0000, 0x8000).put(addr, &[ARENA + 0x8_0000]);
            lab.map(ARENA, 0x10_0000).put(ARENA + 0x8_0000, &[ARENA, size, 3, subproc, 0, ARENA]);
            lab.recognise(find, ("libmimalloc.so.3", range(0x10_0000, 0x8000)), &[range(ARENA, 0x10_0000)])
        };
        assert_eq!(recognise(0x10_0e68, 0x10_0e40, 0x10_0000)[0].0, range(ARENA, 0x10_0000));
        // Its subproc is elsewhere; the subproc begins after the pointer; not all of the memory is mapped.
        assert!(recognise(0x10_0e68, 0x3_0000, 0x10_0000).is_empty());
        assert!(recognise(0x10_0e68, 0x10_0e70, 0x10_0000).is_empty());
        assert!(recognise(0x10_0e68, 0x10_0e40, 0x20_0000).is_empty());
    }
}

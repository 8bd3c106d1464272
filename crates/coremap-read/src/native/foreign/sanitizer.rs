//! AddressSanitizer: the shadow of all memory, and its allocator's mappings.
//!
//! On x86_64 the shadow of an address is at address / 8 + 0x7fff8000. So the shadow of all memory is between that and
//! 0x10007fff8000, and nothing else can be there. The allocator's space has a fixed address too. Blocks too large for
//! it have their own mapping, which begins with a page for its bounds. Source: compiler-rt asan_mapping.h,
//! asan_allocator.h and sanitizer_allocator_primary64.h, sanitizer_allocator_secondary.h.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, Label};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::targets::Arch;

/// The shadow of the whole address space (kHighShadowEnd + 1, with 47 address bits).
const SHADOW: AddrRange = AddrRange { start: Addr::new(0x7fff_8000), end: Addr::new(0x1000_7fff_8000) };

/// kAllocatorSpace and kAllocatorSize. Compilers since 2023 begin it lower, and with GCC 16 it has no fixed address.
const SPACE: AddrRange = AddrRange { start: Addr::new(0x5000_0000_0000), end: Addr::new(0x6400_0000_0000) };

/// Bytes between size classes: kRegionSize, which is kSpaceSize / kNumClassesRounded.
const REGION: u64 = 1 << 36;

/// Number of size classes whose memory must begin at the expected address before the space's start is accepted.
const ENOUGH: usize = 4;

/// Minimum size in bytes of the high shadow: the shadow of the upper half of memory. It is one mapping, ends with the
/// shadow, and is more than half of it.
const MIN_HIGH_SHADOW: u64 = 8 << 40;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    if scene.arch != Arch::X86_64 {
        return;
    }
    let named = |i: &&Image<'_>| i.name.starts_with("libasan") || i.name.contains("rt.asan");
    let program = || scene.images.iter().find(|i| i.is_program);
    // If ASan is linked into the program, a core of the kernel has no symbol names. The shadow identifies it then.
    let shadow = scene.unclaimed_at(SHADOW.end.saturating_sub(1));
    let shadowed = shadow.is_some_and(|r| r.end == SHADOW.end && r.len() >= MIN_HIGH_SHADOW);
    let linked = || program().filter(|i| shadowed || i.exports(scene.memory, &["__asan_init"]));
    let Some(image) = scene.images.iter().find(named).or_else(linked) else { return };
    let hint = if shadowed { "a mapping of shadow size ends where ASan's shadow ends" } else { "ASan is loaded" };
    let evidence = format!("{hint} ({}); its shadow has this fixed address", image.name);
    let shadow = Label::derived(Kind::SanitizerShadow, image.owner, "AddressSanitizer: shadow", evidence);
    found.add(scene.unclaimed_within(SHADOW), &shadow);
    let evidence = format!("{hint} ({}); its allocator's space has this fixed address", image.name);
    let label = |evidence| Label::derived(Kind::Allocator, image.owner, "AddressSanitizer's malloc", evidence);
    found.add(scene.unclaimed_within(SPACE), &label(evidence));
    let moved = space(scene, image);
    if let Some(space) = moved {
        let evidence =
            format!("a word in {}'s data: size classes start at {}, {REGION} bytes apart", image.name, space.start);
        found.add(scene.unclaimed_within(space), &label(evidence));
    }
    let mut mapped = Vec::new();
    let elsewhere = |r: &&AddrRange| ![Some(SHADOW), Some(SPACE), moved].iter().flatten().any(|s| s.contains(r.start));
    for open in scene.unclaimed().iter().filter(elsewhere) {
        // Adjacent blocks are one range. Other mappings of the program may be between them.
        let mut at = open.start;
        while let Some(range) = own_mapping(scene, at, open) {
            scene.keep(at, 3);
            mapped.push(range);
            at = range.end;
        }
    }
    let label = Label::derived(
        Kind::Allocator,
        image.owner,
        "AddressSanitizer's malloc: blocks with their own mapping",
        "LargeMmapAllocator: the mapping begins with its own bounds",
    );
    found.add(mapped, &label);
}

/// Returns the allocator's space if it has no fixed address. A word of the data (`NonConstSpaceBeg`) has its start,
/// from which the memory of several size classes begins.
fn space(scene: &Scene<'_>, image: &Image<'_>) -> Option<AddrRange> {
    let classes = SPACE.len() / REGION;
    // Starts of ranges by their offset in a region. The memory of each size class begins at the same offset.
    let mut starts: BTreeMap<u64, BTreeSet<Addr>> = BTreeMap::new();
    for range in scene.unclaimed() {
        starts.entry(range.start.since(range.start.align_down(REGION))).or_default().insert(range.start);
    }
    starts.retain(|_, list| list.len() >= ENOUGH);
    let mut best: Option<(Addr, AddrRange)> = None;
    for part in &image.writable {
        scene.each_word(*part, |at, word| {
            let start = Addr::new(word);
            let Some(list) = starts.get(&start.since(start.align_down(REGION))) else { return };
            let of_space = |at: &&Addr| at.checked_since(start).is_some_and(|n| n / REGION < classes);
            let last = list.iter().rfind(of_space);
            if best.is_none() && list.iter().filter(of_space).count() >= ENOUGH {
                let end = last.and_then(|at| at.checked_add(REGION)).unwrap_or(start);
                best = Some((at, AddrRange::new(start, end)));
            }
        });
    }
    let (at, space) = best?;
    scene.keep(at, 1);
    Some(space)
}

/// Reads a `LargeMmapAllocator::Header`: map_beg, map_size, size.
fn own_mapping(scene: &Scene<'_>, at: Addr, open: &AddrRange) -> Option<AddrRange> {
    let [start, size, used] = scene.words(at)?;
    let range = AddrRange::sized(at, size);
    (Addr::new(start) == at && size > 4096 && size.is_multiple_of(4096) && used < size && open.covers(&range))
        .then_some(range)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const BIG: u64 = 0x7f00_0000_0000;

    fn recognise(name: &str, start: u64) -> usize {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64).map(BIG, 0x5000).put(BIG, &[start, 0x5000, 0x3f00]);
        let open = [range(0x7fff_8000, 0x10000), range(0x6020_0000_0000, 0x10000), range(BIG, 0x5000)];
        lab.recognise(find, (name, range(0x1_0000, 64)), &open).len()
    }

    #[test]
    fn shadow_and_allocator_have_their_places() {
        assert_eq!(recognise("libasan.so.8.0.0", BIG), 3);
        assert_eq!(recognise("libasan.so.8.0.0", BIG + 4096), 2);
        assert_eq!(recognise("libubsan.so.1", BIG), 0);
    }

    #[test]
    fn linked_into_a_program_its_shadow_tells() {
        let recognise = |end: u64, len: u64| {
            let mut lab = Lab::default();
            lab.map(0x1_0000, 64);
            let open = [range(0x6020_0000_0000, 0x10000), range(end - len, len)];
            lab.recognise(find, ("server", range(0x1_0000, 64)), &open).len()
        };
        assert_eq!(recognise(0x1000_7fff_8000, 0xdff_f000_1000), 2);
        assert_eq!(recognise(0x1000_7fff_9000, 0xdff_f000_1000), 0);
        assert_eq!(recognise(0x1000_7fff_8000, 0x1000_0000), 0);
    }

    #[test]
    fn a_space_without_a_fixed_place_begins_where_a_word_says() {
        let recognise = |count: u64, word: u64| {
            let mut lab = Lab::default();
            lab.map(0x1_0000, 64).put(0x1_0010, &[word]);
            let open: Vec<AddrRange> = (1..=count).map(|i| range(0x7bc7_b93e_0000 + i * REGION, 0x10000)).collect();
            lab.recognise(find, ("libasan.so.8", range(0x1_0000, 64)), &open).len()
        };
        assert_eq!(recognise(4, 0x7bc7_b93e_0000), 4);
        assert_eq!(recognise(4, 0x7bc7_b93f_0000), 0);
        assert_eq!(recognise(3, 0x7bc7_b93e_0000), 0);
    }
}

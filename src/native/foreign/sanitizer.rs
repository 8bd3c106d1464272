//! AddressSanitizer: the shadow of all memory, and what its allocator mapped.
//!
//! On x86_64 the shadow of an address is at address / 8 + 0x7fff8000, so that the shadow of all memory lies between that and
//! 0x10007fff8000, and nothing else can. The allocator's space is fixed too; blocks that are too large for it have a
//! mapping that begins with a page for its own bounds. Source: compiler-rt asan_mapping.h, asan_allocator.h and
//! sanitizer_allocator_secondary.h; measured on GCC 12.

use super::found::{Found, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::targets::Arch;

/// The shadow of the whole address space (kHighShadowEnd + 1, with 47 bits of address).
const SHADOW: AddrRange = AddrRange { start: Addr::new(0x7fff_8000), end: Addr::new(0x1000_7fff_8000) };

/// kAllocatorSpace and kAllocatorSize; of compilers since 2023 it begins lower.
const SPACE: AddrRange = AddrRange { start: Addr::new(0x5000_0000_0000), end: Addr::new(0x6400_0000_0000) };

pub(super) fn find(scene: &Scene<'_>, found: &mut Found) {
    let linked = |i: &super::scene::Image<'_>| i.is_program && i.exports(scene.memory, &["__asan_init"]);
    let image = scene.images.iter().find(|i| i.name.starts_with("libasan") || i.name.contains("rt.asan") || linked(i));
    let Some(image) = image.filter(|_| scene.arch == Arch::X86_64) else { return };
    let evidence = format!("{} is loaded, and its shadow of all memory has this fixed place", image.name);
    let label = |kind, detail: &str| Label::derived(kind, image.owner, detail, evidence.clone());
    found.add(scene.open_within(SHADOW), &label(Kind::SanitizerShadow, "AddressSanitizer: shadow"));
    let evidence = format!("{} is loaded, and its allocator's space has this fixed place", image.name);
    let label = Label::derived(Kind::Allocator, image.owner, "AddressSanitizer's malloc", evidence);
    found.add(scene.open_within(SPACE), &label);
    let mut mapped = Vec::new();
    for open in scene.open().iter().filter(|r| !SHADOW.contains(r.start) && !SPACE.contains(r.start)) {
        let mut at = open.start;
        // One behind the other, where the kernel joined them.
        while let Some(range) = own_mapping(scene, at, open) {
            mapped.push(range);
            at = range.end;
        }
    }
    let label = Label::derived(
        Kind::Allocator,
        image.owner,
        "AddressSanitizer's malloc: blocks with a mapping of their own",
        "LargeMmapAllocator: the mapping begins with its own bounds",
    );
    found.add(mapped, &label);
}

/// `LargeMmapAllocator::Header`: map_beg, map_size, size.
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

    fn ask(name: &str, start: u64) -> usize {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64).map(BIG, 0x5000).put(BIG, &[start, 0x5000, 0x3f00]);
        let open = [range(0x7fff_8000, 0x10000), range(0x6020_0000_0000, 0x10000), range(BIG, 0x5000)];
        lab.ask(find, (name, range(0x1_0000, 64)), &open).len()
    }

    #[test]
    fn shadow_and_allocator_have_their_places() {
        assert_eq!(ask("libasan.so.8.0.0", BIG), 3);
        assert_eq!(ask("libasan.so.8.0.0", BIG + 4096), 2);
        assert_eq!(ask("libubsan.so.1", BIG), 0);
    }
}

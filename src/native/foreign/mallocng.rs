//! musl's mallocng: groups of slots, each with a meta that it points back to.
//!
//! Metas lie in areas of a page, which begin with the process's secret and are linked from `__malloc_context` in libc's data: there
//! the secret comes first. Each group in use begins with a pointer to its meta, and the meta has
//! its address: that proves a group, whatever area it came from. Source: musl 1.2.1 and later, src/malloc/mallocng/meta.h;
//! measured on 1.2.3, dynamic and static.

use std::collections::BTreeSet;

use super::found::{Found, Label};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Kind;
use crate::memory::walk::Walks;
use crate::phase::Phase;

/// `struct meta_area`: check, next, nslots; then metas.
const AREA: u64 = 4096;
const AREA_HEAD: u64 = 24;
/// `struct meta`: prev, next, mem, two masks, and bits.
const META: u64 = 40;
const MAX_METAS: u64 = (AREA - AREA_HEAD) / META;

/// UNIT, and the sizes of the classes in it (`__malloc_size_classes`).
const UNIT: u64 = 16;
const CLASSES: [u64; 48] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292,
    340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
];

/// Class of a block with a mapping of its own.
const SINGLE: u64 = 63;

/// Words of the context from its secret to the areas' list: 8 so far.
const CONTEXT_WORDS: u64 = 32;

/// Whether musl may be linked into a program: none of the usual C libraries is loaded beside it.
fn may_be_musl(scene: &Scene<'_>, image: &Image<'_>) -> bool {
    let musl = ["ld-musl-", "libc.musl-"].iter().any(|s| image.name.starts_with(s)) || image.name == "libc.so";
    musl || (image.is_program && scene.named(&["libc.so.", "libc-2."]).is_none())
}

pub(super) fn find(scene: &Scene<'_>, found: &mut Found) {
    for image in scene.images.iter().filter(|i| may_be_musl(scene, i)) {
        let starts = scene.pointers(image, AREA);
        let mut seen = BTreeSet::new();
        for pointer in starts {
            let Ok(secret) = scene.memory.u64(pointer.to) else { continue };
            let context = AddrRange::new(pointer.place.saturating_sub(8 * CONTEXT_WORDS), pointer.place);
            let mut known = false;
            scene.each_word(context, |_, word| known |= word == secret);
            if secret == 0 || !known || !seen.insert(pointer.to) {
                continue;
            }
            let groups = Groups::read(scene, pointer.to, secret);
            if groups.memory.is_empty() {
                continue;
            }
            seen.extend(&groups.areas);
            let evidence = format!("{} groups, each with a pointer to the meta that leads to it", groups.memory.len());
            found.add(groups.memory, &Label::derived(Kind::Allocator, image.owner, "mallocng (musl)", evidence));
            let areas = groups.areas.iter().map(|a| AddrRange::sized(*a, AREA)).collect();
            let evidence = format!("meta_area: it begins with the secret at {context} in libc's data");
            let label = Label::derived(Kind::Allocator, image.owner, "mallocng (musl): its structures", evidence);
            found.add(areas, &label);
        }
    }
}

/// What one list of areas leads to.
struct Groups {
    areas: BTreeSet<Addr>,
    memory: Vec<AddrRange>,
}

impl Groups {
    fn read(scene: &Scene<'_>, first: Addr, secret: u64) -> Groups {
        let mut out = Groups { areas: BTreeSet::new(), memory: Vec::new() };
        let walks = Walks::new(Phase::Foreign, limits::MAX_FOREIGN_STEPS);
        let end = walks.begin().follow(first, |area| {
            let [check, next, count] = scene.words(area).ok_or("it is not in the core")?;
            if check != secret || !area.is_aligned(AREA) {
                return Err("it does not begin with the secret");
            }
            out.areas.insert(area);
            for i in 0..(count & 0xffff_ffff).min(MAX_METAS) {
                let meta = area.saturating_add(AREA_HEAD + META * i);
                out.memory.extend(group(scene, meta));
            }
            Ok(Addr::new(next))
        });
        if let Err(e) = end {
            tracing::debug!("areas of mallocng from {first} on: {e}");
        }
        out
    }
}

/// The group of a meta, if it leads back. `bits`: last_idx 5, freeable 1, sizeclass 6, maplen 52.
fn group(scene: &Scene<'_>, meta: Addr) -> Option<AddrRange> {
    let [_, _, memory, _, bits] = scene.words(meta)?;
    let memory = Addr::new(memory);
    if memory.is_null() || scene.memory.ptr(memory).ok()? != meta {
        return None;
    }
    let (last, class, pages) = (bits & 31, bits >> 6 & 63, bits >> 12);
    let mapped = pages.checked_mul(4096)?;
    let slots = CLASSES.get(class as usize).map(|size| UNIT + UNIT * size * (last + 1));
    let len = match (class, slots) {
        // A group of one slot fills its mapping, whatever its class.
        (SINGLE, _) => mapped,
        (_, Some(len)) => len.max(mapped),
        _ => return None,
    };
    Some(AddrRange::sized(memory, len))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const SECRET: u64 = 0x1122_3344_5566_7788;

    /// A context at 0x10000, an area at 0x20000, a group of 3 slots of 32 bytes at 0x30010.
    fn ask(back: u64, next: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 0x1000).put(0x1_0008, &[SECRET, 4096, 1, 0, 0, 0, 0, 0x2_0000]);
        lab.map(0x2_0000, 0x1000).put(0x2_0000, &[SECRET, next, 2, 0, 0, 0x3_0010, 0, 2 | 1 << 6]);
        lab.map(0x3_0000, 0x1000).put(0x3_0010, &[back]);
        lab.ask(find, ("ld-musl-x86_64.so.1", range(0x1_0000, 0x1000)), &[range(0x2_0000, 0x2_0000)])
    }

    #[test]
    fn a_group_that_points_back_is_musls() {
        let found = ask(0x2_0018, 0);
        assert_eq!(found[0].0, range(0x3_0010, 16 + 3 * 32));
        assert_eq!(found[1].0, range(0x2_0000, 4096));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_group_that_does_not_is_nobodys_and_a_ring_of_areas_ends() {
        assert!(ask(0x2_0020, 0).is_empty());
        assert_eq!(ask(0x2_0018, 0x2_0000).len(), 2);
    }
}

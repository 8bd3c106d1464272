//! CPython: arenas of its small objects (obmalloc).
//!
//! A word of the interpreter's data points to the array of arena_objects: {address, pool_address, nfreepools,
//! ntotalpools, three links}, 48 bytes each. An arena consists of pools, and each pool's header has its arena's index
//! in the array. Source: Objects/obmalloc.c and pycore_obmalloc.h of CPython 3.6 to 3.14; measured on 3.11.

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Kind;
use crate::native::obmalloc::{ArenaObject, SIZES};

/// Size in bytes of `struct arena_object`.
const ARENA_OBJECT: u64 = 48;

/// Offset in `pool_header` of the arena's index. The size class and the next free offset follow.
const ARENA_INDEX: u64 = 32;

/// Upper bound on size classes: at most 512 bytes, in steps of 16 or 8.
const MAX_CLASSES: u64 = 64;

/// Number of pools per arena that are checked.
const PROVED: u64 = 4;

/// Maximum number of consecutive unused entries in the array.
const MAX_UNUSED: u64 = 256;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let Some(image) = scene.named(&["libpython", "python", "uwsgi", "mod_wsgi"]) else { return };
    let mut arrays: Vec<Addr> = Vec::new();
    for &part in &image.writable {
        scene.each_word(part, |_, word| {
            let to = Addr::new(word);
            if arrays.len() < limits::MAX_FOREIGN_POINTERS && to.is_aligned(16) && first_arena(scene, to).is_some() {
                arrays.push(to);
            }
        });
    }
    arrays.sort_unstable();
    arrays.dedup();
    let best = arrays.into_iter().map(|array| (arenas(scene, array), array)).max_by_key(|(list, _)| list.len());
    let Some((list, array)) = best.filter(|(list, _)| !list.is_empty()) else { return };
    let evidence =
        format!("{} arena_objects in the array at {array}; the pools have matching arena indexes", list.len());
    found.add(list, &Label::derived(Kind::RuntimeHeap, image.owner, "CPython: object arenas", evidence));
}

/// Returns the sizes of arena and pool if an array begins at `array`. An entry near its start must be in use.
fn first_arena(scene: &Scene<'_>, array: Addr) -> Option<(u64, u64)> {
    let (mut at, mut unused) = (array, 0);
    // In a young process, used entries come first. Arenas that were freed leave gaps.
    while unused < MAX_UNUSED {
        let entry: [u64; 6] = scene.words(at)?;
        if entry[0] != 0 {
            let index = at.since(array) / ARENA_OBJECT;
            return SIZES.into_iter().find(|size| arena(scene, entry, index, *size).is_some());
        }
        // An entry that was never used has no pool either.
        if entry[1] > u64::from(u32::MAX) && scene.unclaimed_at(Addr::new(entry[1])).is_none() {
            return None;
        }
        unused += 1;
        at = at.checked_add(ARENA_OBJECT)?;
    }
    None
}

fn arenas(scene: &Scene<'_>, array: Addr) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let Some(size) = first_arena(scene, array) else { return out };
    let (mut index, mut unused) = (0, 0);
    while unused < MAX_UNUSED && out.len() < limits::MAX_FOREIGN_RANGES {
        let Some(entry) = array.checked_add(ARENA_OBJECT * index).and_then(|at| scene.words(at)) else { break };
        match arena(scene, entry, index, size) {
            Some(range) => {
                // Keep three words of the entry, since the links after them are addresses. Keep the numbers of pools.
                scene.keep(array.saturating_add(ARENA_OBJECT * index), 3);
                let first = range.start.align_up(size.1);
                (0..PROVED).for_each(|i| scene.keep(first.saturating_add(i * size.1 + ARENA_INDEX), 2));
                out.push(range);
                unused = 0;
            }
            None if entry[0] == 0 => unused += 1,
            None => break,
        }
        index += 1;
    }
    out
}

/// Returns the arena of an entry, if its counts and its first pools are consistent.
fn arena(scene: &Scene<'_>, entry: [u64; 6], index: u64, (size, pool): (u64, u64)) -> Option<AddrRange> {
    let [address, pool_address, pools, first_free, ..] = entry;
    let arena = ArenaObject::from_words([address, pool_address, pools, first_free]).arena((size, pool))?;
    // Pools up to pool_address were used once, and still have their header.
    let numbered = (0..arena.carved.min(PROVED)).all(|i| {
        let header = arena.first_pool.saturating_add(i * pool + ARENA_INDEX);
        scene.words::<2>(header).is_some_and(|[number, offsets]| {
            number & 0xffff_ffff == index && number >> 32 < MAX_CLASSES && offsets & 0xffff_ffff <= pool
        })
    });
    (scene.unclaimed_at(arena.range.start).is_some() && arena.carved > 0 && numbered).then_some(arena.range)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const ARENA: u64 = 0x7f00_0010_0000;

    /// An arena of 1 MiB with two used pools, at index 1 of its array.
    fn recognise(name: &str, number: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64).put(0x1_0000, &[0x2_0000]);
        lab.map(0x2_0000, 4096).put(0x2_0030, &[ARENA, ARENA + 0x8000, 62 | 64 << 32]);
        lab.map(ARENA, 0x10000);
        lab.put(ARENA + ARENA_INDEX, &[1 | 3 << 32, 112]).put(ARENA + 0x4000 + ARENA_INDEX, &[number | 5 << 32, 96]);
        lab.recognise(find, (name, range(0x1_0000, 64)), &[range(ARENA, 1 << 20)])
    }

    #[test]
    fn pools_must_have_their_arenas_number() {
        assert_eq!(recognise("python3.11", 1)[0].0, range(ARENA, 1 << 20));
        assert!(recognise("python3.11", 2).is_empty());
        assert!(recognise("perl", 1).is_empty());
    }
}

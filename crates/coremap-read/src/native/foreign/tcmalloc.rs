//! Blocks of tcmalloc (gperftools): which objects of its spans are free.
//!
//! A span is allocated whole, or cut into objects of one class. Free objects are in the span's own list, in a thread's
//! cache, or in a transfer cache. In all lists, an object's first word points to the next object. A span counts the
//! objects that are not in its own list. That count plus the list's length must equal the span's capacity.
//!
//! Sources: gperftools span.h (`Span`), thread_cache.h (`ThreadCache`, its `FreeList`), central_freelist.h, common.h.
//! Measured on 2.10. Other forms are rejected.

use std::collections::{BTreeMap, HashSet};

use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::walk::Walks;
use crate::native::malloc::extents::{Extent, ExtentHeap};
use crate::phase::Phase;
use crate::sums::SaturatingSum;
use crate::units::count;
use crate::words::AllocatorName;

/// Size in bytes of a `Span`, and indexes of its words: first page, number of pages, next, prev, objects, counts. The
/// last has refcount (16 bits), sizeclass (8) and location (2).
const SPAN: u64 = 48;
const NEXT: usize = 2;
const PREV: usize = 3;
const OBJECTS: usize = 4;
const COUNTS: usize = 5;

/// A `ThreadCache` begins with an entry of this size for each class: list, length, and the object size at offset 24.
const ENTRY: u64 = 32;
const ENTRY_SIZE: u64 = 24;
const LEAST_CLASSES: usize = 30;
const MOST_CLASSES: u64 = 128;

/// Bytes of a `ThreadCache` after its entries, with links to the next and previous cache.
const CACHE_TAIL: u64 = 128;

/// Number of slots in a `CentralFreeList`. It has two heads of lists of spans, its number of spans, its number of free
/// objects, 64 slots with first and last object of a chain, and the number of used slots.
const SLOTS: u64 = 64;

/// Inverse of the share of bytes whose spans may be inconsistent.
const BAD_SHARE_DIVISOR: u64 = 20;

/// Bytes of TLS below and above a thread pointer in which the pointer to a cache is searched.
const TLS: u64 = 16 << 10;

/// A span that is cut into objects.
struct ObjectSpan {
    class: usize,
    next: Addr,
    prev: Addr,
    free: u64,
}

/// Reads the heap from the structures of its spans. `None` if their form is unknown.
pub(super) fn heap(scene: &Scene<'_>, structures: &[(Addr, AddrRange)], image: &Image<'_>) -> Option<ExtentHeap> {
    let walks = Walks::new(Phase::Foreign, limits::MAX_FOREIGN_STEPS);
    let caches = caches(scene, &walks);
    let first = *caches.iter().next()?;
    let sizes = sizes(scene, first)?;
    let (mut extents, mut cuts, mut unsound, mut unknown) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
    let mut spans = Vec::new();
    let mut sorted = structures.to_vec();
    sorted.sort_by_key(|(_, range)| range.start);
    sorted.dedup_by(|next, kept| next.1.start < kept.1.end);
    for (at, range) in sorted {
        let mut contradicts = || {
            unsound += 1;
            unknown = unknown.saturating_add(range.len());
        };
        let Some(words) = scene.words::<6>(at) else {
            contradicts();
            continue;
        };
        spans.push(at);
        let (class, location) = ((words[COUNTS] >> 16 & 0xff) as usize, words[COUNTS] >> 24 & 3);
        if location != 0 {
            continue;
        }
        if class == 0 {
            extents.push(Extent { range, start: range.start, size: range.len(), slab: None });
            continue;
        }
        let Some(&size) = sizes.get(class) else {
            contradicts();
            continue;
        };
        let room = range.len() / size;
        let mut bits = vec![0_u64; room.div_ceil(64) as usize].into_boxed_slice();
        let mut free = 0;
        let list = walks.begin_cycle_only().follow(Addr::new(words[OBJECTS]), |object| {
            let number = object_number(range, size, object).ok_or("no object of the span")?;
            if let Some(word) = bits.get_mut((number / 64) as usize) {
                *word |= 1 << (number % 64);
            }
            free += 1;
            scene.memory.peek_u64(object).map(Addr::new).map_err(|_| "not in the core")
        });
        if list.is_err() || free + (words[COUNTS] & 0xffff) != room {
            contradicts();
            continue;
        }
        let (next, prev) = (Addr::new(words[NEXT]), Addr::new(words[PREV]));
        cuts.push(ObjectSpan { class, next, prev, free });
        extents.push(Extent { range, start: range.start, size, slab: Some(bits) });
    }
    let committed = structures.iter().map(|(_, range)| range.len()).saturating_sum();
    let proven = !cuts.is_empty() && unsound <= cuts.len() as u64;
    if !proven || unknown.saturating_mul(BAD_SHARE_DIVISOR) > committed {
        return None;
    }
    spans.into_iter().for_each(|at| scene.keep(at, SPAN / 8));
    // With the entry after the last one, which ends them.
    caches.iter().for_each(|at| scene.keep(*at, ENTRY / 8 * (sizes.len() as u64 + 1)));
    let evidence = format!(
        "{}; in {} of them, free and used objects add up to the span's capacity",
        count(structures.len() as u64, "span"),
        cuts.len()
    );
    let mut heap = ExtentHeap {
        name: AllocatorName::Tcmalloc,
        owner: image.owner,
        committed,
        extents,
        cached: HashSet::new(),
        own: HashSet::new(),
        without_cache: 0,
        unsound,
        unknown,
        evidence,
    };
    let mut chains: Vec<(Addr, u64)> = Vec::new();
    for cache in caches {
        for class in 1..sizes.len() as u64 {
            if let Some([list, length]) = cache.checked_add(ENTRY * class).and_then(|at| scene.words(at)) {
                chains.push((Addr::new(list), length & 0xffff_ffff));
            }
        }
    }
    chains.extend(transfers(scene, image, &cuts));
    heap.cached = cached(scene, &walks, &heap.extents, &chains);
    Some(heap)
}

/// Returns the index of the object that begins at `at`.
fn object_number(range: AddrRange, size: u64, at: Addr) -> Option<u64> {
    let from = at.checked_since(range.start).filter(|_| range.contains(at))?;
    from.is_multiple_of(size).then(|| from / size)
}

/// Returns the object sizes of the classes, from the entries of a thread's cache. Class 0 has size 0.
fn sizes(scene: &Scene<'_>, cache: Addr) -> Option<Vec<u64>> {
    let mut out = vec![0];
    for class in 1..MOST_CLASSES {
        let size = scene.memory.peek_u32(cache.checked_add(ENTRY * class + ENTRY_SIZE)?).ok()?;
        if u64::from(size) <= *out.last()? {
            break;
        }
        out.push(size.into());
    }
    // The smallest alignment is 8, and the next class is 16.
    (out.len() >= LEAST_CLASSES && out.get(1..3) == Some(&[8, 16])).then_some(out)
}

/// Returns all threads' caches. Words of threads' TLS lead to some, and their links to the others.
fn caches(scene: &Scene<'_>, walks: &Walks) -> std::collections::BTreeSet<Addr> {
    let mut found = std::collections::BTreeSet::new();
    let mut queue: Vec<Addr> = Vec::new();
    let mut distance = None;
    for &thread in &scene.thread_pointers {
        let near = AddrRange::new(thread.saturating_sub(TLS), thread.saturating_add(TLS));
        let near = match distance {
            Some(at) => AddrRange::sized(thread.wrapping_offset(at), 8),
            None => near,
        };
        let mut found_at = None;
        scene.each_word(near, |at, word| {
            let to = Addr::new(word);
            if found_at.is_none() && to.is_aligned(8) && scene.unclaimed_at(to).is_some() && sizes(scene, to).is_some()
            {
                found_at = Some(at);
                queue.push(to);
            }
        });
        let signed = |at: Addr| if at >= thread { at.since(thread) as i64 } else { -(thread.since(at) as i64) };
        distance = distance.or(found_at.map(signed));
    }
    while let Some(at) = queue.pop() {
        let Some(classes) = sizes(scene, at).filter(|_| walks.spend(at, 1).is_ok() && found.insert(at)) else {
            continue;
        };
        let tail = at.saturating_add(ENTRY * classes.len() as u64);
        let end = at.saturating_add(ENTRY * MOST_CLASSES + CACHE_TAIL);
        scene.each_word(AddrRange::new(tail, end), |_, word| {
            let to = Addr::new(word);
            let fresh = to.is_aligned(8) && !found.contains(&to) && scene.unclaimed_at(to).is_some();
            if fresh && sizes(scene, to).as_ref() == Some(&classes) {
                queue.push(to);
            }
        });
    }
    found
}

/// Returns the chains in transfer caches: first object, and maximum length. The transfer caches are found by the heads
/// of the lists of spans, which are in the image's data.
fn transfers(scene: &Scene<'_>, image: &Image<'_>, cuts: &[ObjectSpan]) -> Vec<(Addr, u64)> {
    let mut classes: BTreeMap<usize, (u64, u64, HashSet<Addr>)> = BTreeMap::new();
    let in_data = |at: &Addr| image.writable.iter().any(|part| part.contains(*at));
    for cut in cuts {
        let (spans, free, heads) = classes.entry(cut.class).or_default();
        *spans += 1;
        *free += cut.free;
        heads.extend([cut.next, cut.prev].into_iter().filter(in_data));
    }
    let mut out = Vec::new();
    for (spans, free, heads) in classes.into_values() {
        let lists = heads.iter().flat_map(|head| [Some(*head), head.checked_sub(SPAN)]).flatten();
        let central = lists.into_iter().find(|at| {
            let counts = at.checked_add(2 * SPAN).and_then(|at| scene.words::<2>(at));
            counts.is_some_and(|[number, _]| number == spans) && counts.is_some_and(|[_, objects]| objects == free)
        });
        let Some(slots) = central.and_then(|at| at.checked_add(2 * SPAN + 16)) else { continue };
        let used = slots.checked_add(16 * SLOTS).and_then(|at| scene.memory.peek_u32(at).ok()).unwrap_or(0);
        // The counts before the slots, and the number after them.
        scene.keep(slots.saturating_sub(16), 2);
        scene.keep(slots.saturating_add(16 * SLOTS), 1);
        for slot in 0..u64::from(used).min(SLOTS) {
            if let Some([head, _]) = slots.checked_add(16 * slot).and_then(|at| scene.words::<2>(at)) {
                out.push((Addr::new(head), u64::MAX));
            }
        }
    }
    out
}

/// Returns the objects in chains. A chain is followed while its objects are allocated objects of spans.
fn cached(scene: &Scene<'_>, walks: &Walks, extents: &[Extent], chains: &[(Addr, u64)]) -> HashSet<Addr> {
    let mut out = HashSet::new();
    for &(head, limit) in chains {
        let mut left = limit;
        let end = walks.begin_cycle_only().follow(head, |object| {
            let i = extents.partition_point(|e| e.range.end <= object);
            let extent = extents.get(i).filter(|e| e.slab.is_some()).ok_or("no object")?;
            if left == 0 || extent.used_at(object) != Some(object) {
                return Err("no free object");
            }
            left -= 1;
            out.insert(object);
            scene.memory.peek_u64(object).map(Addr::new).map_err(|_| "not in the core")
        });
        if let Err(e) = end {
            tracing::debug!("a list of free objects from {head} on: {e}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;
    use crate::map::Owner;

    const DATA: u64 = 0x10_0000;
    const HEAP: u64 = 0x7f00_0000_0000;
    const OWN: u64 = 0x7e00_0000_0000;
    const TLS_AT: u64 = 0x7d00_0000_0000;

    /// A span of 8 KiB of class 4 (64 bytes) has one object in its own list, one in a thread's cache and one in the
    /// transfer cache. Another span is allocated whole. `counted` is the span's count of objects not in its list.
    fn recognise(counted: u64, length: u64) -> Option<(u64, u64, u64)> {
        let object = |n: u64| HEAP + 64 * n;
        let mut lab = Lab::default();
        lab.map(DATA, 0x2000).map(HEAP, 0x4000).map(OWN, 0x4000).map(TLS_AT, 0x1000);
        lab.put(TLS_AT + 0x100, &[OWN + 0x1000]);
        for class in 1..40 {
            let size = if class == 1 { 8 } else { 16 * (class - 1) };
            lab.put(OWN + 0x1000 + ENTRY * class + ENTRY_SIZE, &[size]);
        }
        lab.put(OWN + 0x1000 + ENTRY * 5, &[object(7), length]);
        let central = DATA + 0x500;
        lab.put(OWN, &[HEAP >> 13, 1, central, central, object(3), counted | 5 << 16]);
        lab.put(OWN + 48, &[(HEAP >> 13) + 1, 1, 0, 0, 0, 1]);
        lab.put(central, &[0, 0, OWN, OWN]);
        lab.put(central + 2 * SPAN, &[1, 1, object(9), object(9)]).put(central + 2 * SPAN + 16 + 16 * SLOTS, &[1]);
        let (data, open) = (lab.readable(DATA), vec![range(HEAP, 0x4000), range(OWN, 0x4000)]);
        let image = || Image {
            name: "libtcmalloc.so.4".into(),
            owner: Owner::None,
            writable: data.clone(),
            elf: None,
            is_program: false,
        };
        let mut scene = Scene::new(&lab, vec![image()], open);
        scene.thread_pointers = vec![Addr::new(TLS_AT + 0x800)];
        let structures = [(OWN, 0), (OWN + 48, 0x2000)].map(|(at, from)| (Addr::new(at), range(HEAP + from, 0x2000)));
        let (used, free, cached) = heap(&scene, &structures, &image())?.sums();
        Some((used.count, free.count, cached.count))
    }

    #[test]
    fn objects_are_free_by_all_three_lists() {
        assert_eq!(recognise(127, 1), Some((128 - 3 + 1, 3, 2)));
        // A cache whose length is 0 is empty, whatever its list points to.
        assert_eq!(recognise(127, 0), Some((128 - 2 + 1, 2, 1)));
    }

    #[test]
    fn a_span_whose_count_does_not_agree_is_not_believed() {
        assert_eq!(recognise(126, 1), None);
    }
}

//! Ruby: pages of its object heap.
//!
//! A page of 64 KiB begins with a pointer to its `struct heap_page`, which has the first slot's address in the page.
//! Source: gc.c of Ruby 2.7 to 3.3 (`struct heap_page_body`, `heap_page.start`).

use std::collections::BTreeMap;

use super::findings::{Findings, Label};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange, PAGE};
use crate::limits;
use crate::map::Kind;
use crate::units::count;

/// HEAP_PAGE_SIZE since 3.1; before, it was 16 KiB. Pages from posix_memalign are mostly known as malloc's.
const HEAP_PAGE: u64 = 64 << 10;

/// Maximum offset of a page's first slot: after the pointer, aligned to a slot of at most 640 bytes.
const MAX_FIRST: u64 = 1024;

/// Minimum number of pages whose `heap_page` has the address in the same word. A process starts with some hundreds.
const ENOUGH: usize = 8;

/// TRANSIENT_HEAP_TOTAL_SIZE, TRANSIENT_HEAP_BLOCK_SIZE
const TRANSIENT_HEAP: u64 = 32 << 20;
const BLOCK: u64 = 32 << 10;

/// Words of `rb_shape_tree_t`, bytes of a node of its cache, and minimum bytes of a list of shapes (20 MiB in 3.3).
const TREE_WORDS: usize = 16;
const NODE: u64 = 24;
const MIN_SHAPES: u64 = 2 << 20;

/// Bytes of the guard page at the end of each fiber's stack.
const GUARD: u64 = 4096;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let Some(image) = scene.named(&["libruby", "ruby"]) else { return };
    let mut by_word: BTreeMap<usize, Vec<AddrRange>> = BTreeMap::new();
    scene.each_aligned(HEAP_PAGE, |at| {
        if let Some(word) = start(scene, at) {
            by_word.entry(word).or_default().push(AddrRange::sized(at, HEAP_PAGE));
        }
        true
    });
    let Some(pages) = by_word.into_values().max_by_key(Vec::len).filter(|p| p.len() >= ENOUGH) else { return };
    let first = pages.first().map_or(Addr::NULL, |p| p.start);
    let evidence = format!("{} (first: {first}) with a heap_page that points back", count(pages.len() as u64, "page"));
    let owner = image.owner;
    found.add(pages, &Label::derived(Kind::RuntimeHeap, owner, "Ruby: object pages", evidence));
    let evidence = "a pointer in Ruby's data to 32 MiB of linked blocks";
    found.add(transient(scene, image), &Label::derived(Kind::RuntimeHeap, owner, "Ruby: transient heap", evidence));
    let evidence =
        "a structure referenced from Ruby's data has the list of shapes and its cache, whose nodes point into the list";
    found.add(shapes(scene, image), &Label::heuristic(Kind::RuntimeHeap, owner, "Ruby: object shapes", evidence));
    let evidence = "equal ranges separated by no-access pages, in a Ruby process";
    found.add(fibers(scene), &Label::heuristic(Kind::RuntimeHeap, owner, "Ruby: fiber stacks", evidence));
}

/// Returns the transient heap (transient_heap.c, 2.6 to 3.2): one reservation in blocks of 32 KiB. The second word of a
/// block points to the next free one.
fn transient(scene: &Scene<'_>, image: &Image<'_>) -> Vec<AddrRange> {
    let arena = |at: Addr| {
        let range = AddrRange::sized(at, TRANSIENT_HEAP);
        scene.unclaimed_at(at).filter(|open| open.covers(&range))?;
        let mut links = 0;
        for i in 1..TRANSIENT_HEAP / BLOCK {
            let [_, next] = scene.words(at.saturating_add(i * BLOCK))?;
            let next = Addr::new(next);
            let sound = next.is_null() || (next.is_aligned(BLOCK) && range.contains(next));
            sound.then_some(())?;
            links += usize::from(!next.is_null());
        }
        (links >= ENOUGH).then_some(range)
    };
    scene.pointers(image, BLOCK).into_iter().filter_map(|p| arena(p.to)).collect()
}

/// Returns the list of all object shapes and its cache (shape.c, since 3.3).
///
/// `rb_shape_tree_t` has the addresses of both. They are mapped once for the maximum number of shapes, so they end with
/// the mapping.
fn shapes(scene: &Scene<'_>, image: &Image<'_>) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let mut left = limits::MAX_FOREIGN_POINTERS;
    for part in &image.writable {
        // The structure is in the data or in a malloc block.
        scene.each_word(*part, |addr, word| {
            if left > 0 && out.is_empty() {
                left -= 1;
                let trees = [addr, Addr::new(word)].into_iter().filter(|at| at.is_aligned(8));
                out.extend(trees.filter_map(|tree| shapes_of(scene, tree)).next());
            }
        });
    }
    out
}

fn shapes_of(scene: &Scene<'_>, tree: Addr) -> Option<AddrRange> {
    let words: [u64; TREE_WORDS] = scene.words(tree)?;
    let list = Addr::new(words[0]);
    let open = scene.unclaimed_at(list).filter(|r| list.is_aligned(PAGE) && r.end.since(list) >= MIN_SHAPES)?;
    let is_cache = |at: &Addr| {
        // `redblack_node_t`: key, shape, two links.
        let node = |i: u64| scene.words::<2>(at.saturating_add(NODE * i)).map(|[_, shape]| Addr::new(shape));
        let in_list = |shape: Addr| shape.checked_since(list).is_some_and(|n| n < MIN_SHAPES);
        at.is_aligned(PAGE) && *at != list && (0..4).all(|i| node(i).is_some_and(in_list))
    };
    let cache =
        words.iter().skip(1).map(|w| Addr::new(*w)).find(|at| scene.unclaimed_at(*at).is_some() && is_cache(at))?;
    // List and cache are adjacent, and the kernel joins their mappings.
    Some(AddrRange::new(cache.min(list), open.end)).filter(|range| open.covers(range))
}

/// Returns the pool of fibers' stacks (cont.c). All have one size and a guard each.
fn fibers(scene: &Scene<'_>) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let next = |a: &AddrRange, b: &AddrRange| a.len() == b.len() && b.start.checked_since(a.end) == Some(GUARD);
    for row in scene.unclaimed().chunk_by(next).filter(|row| row.len() >= ENOUGH) {
        out.extend_from_slice(row);
    }
    out
}

/// Returns the index of the word in the heap_page that points back to the page at `at`.
fn start(scene: &Scene<'_>, at: Addr) -> Option<usize> {
    let heap_page = scene.memory.ptr(at).ok().filter(|p| !p.is_null() && p.is_aligned(8))?;
    let words: [u64; 16] = scene.words(heap_page)?;
    let slots = AddrRange::sized(at, MAX_FIRST);
    words.iter().position(|w| slots.contains(Addr::new(*w)) && Addr::new(*w) > at)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    fn recognise(name: &str, back: u64) -> usize {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 0x1000);
        for i in 0..8u64 {
            let (at, page) = (0x4000_0000 + i * HEAP_PAGE, 0x1_0000 + i * 128);
            lab.map(at, 4096).put(at, &[page]).put(page + 32, &[at + back]);
        }
        lab.recognise(find, (name, range(0x1_0000, 0x1000)), &[range(0x4000_0000, 8 * HEAP_PAGE)]).len()
    }

    #[test]
    fn a_heap_page_must_point_back() {
        assert_eq!(recognise("libruby-3.1.so.3.1", 0x28), 1);
        assert_eq!(recognise("libruby-3.1.so.3.1", 0x28 + HEAP_PAGE), 0);
        assert_eq!(recognise("perl", 0x28), 0);
    }

    /// Pages of objects at 0x4000_0000, which prove Ruby, and what `more` adds.
    fn with_pages(more: impl Fn(&mut Lab), open: AddrRange) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 0x1000);
        for i in 0..8u64 {
            let (at, page) = (0x4000_0000 + i * HEAP_PAGE, 0x1_0400 + i * 128);
            lab.map(at, 4096).put(at, &[page]).put(page + 32, &[at + 0x28]);
        }
        more(&mut lab);
        lab.recognise(find, ("libruby-3.3.so.3.3", range(0x1_0000, 0x1000)), &[range(0x4000_0000, 8 * HEAP_PAGE), open])
    }

    #[test]
    fn blocks_of_the_transient_heap_lead_to_each_other() {
        const HEAP: u64 = 0x7f00_0000_0000;
        let recognise = |next: u64| {
            let fill = |lab: &mut Lab| {
                lab.put(0x1_0000, &[HEAP]).map(HEAP, TRANSIENT_HEAP as usize);
                for i in 1..16 {
                    lab.put(HEAP + i * BLOCK, &[0, HEAP + (i - 1) * BLOCK + next]);
                }
            };
            with_pages(fill, range(HEAP, TRANSIENT_HEAP))
        };
        let found = recognise(0);
        assert_eq!((found[1].0, found[1].1.detail.as_str()), (range(HEAP, TRANSIENT_HEAP), "Ruby: transient heap"));
        assert_eq!(recognise(8).len(), 1);
    }

    #[test]
    fn nodes_of_the_cache_lead_to_shapes() {
        const CACHE: u64 = 0x7f00_0000_0000;
        const LIST: u64 = CACHE + (1 << 20);
        let recognise = |shape: u64| {
            let fill = |lab: &mut Lab| {
                lab.put(0x1_0000, &[0x2_0000]).map(0x2_0000, 256).put(0x2_0000, &[LIST, LIST, 7, 0, CACHE, 3]);
                lab.map(CACHE, 4096);
                for i in 0..4 {
                    lab.put(CACHE + NODE * i, &[i, shape + 40 * i]);
                }
            };
            with_pages(fill, range(CACHE, (1 << 20) + MIN_SHAPES))
        };
        let found = recognise(LIST + 1);
        assert_eq!(found[1].0, range(CACHE, (1 << 20) + MIN_SHAPES));
        assert_eq!(recognise(CACHE).len(), 1);
    }
}

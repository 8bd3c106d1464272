//! Ruby: pages of its object heap.
//!
//! A page of 64 KiB begins with a pointer to its `struct heap_page`, in which the first slot's address stands: it leads back into the
//! page. Source: gc.c of Ruby 2.7 to 3.3 (`struct heap_page_body`, `heap_page.start`); measured on 3.1.7.

use std::collections::BTreeMap;

use super::found::{Found, Label};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::units::count;

/// HEAP_PAGE_SIZE since 3.1; before it was 16 KiB. Where it takes them by posix_memalign most are known as malloc's.
const PAGE: u64 = 64 << 10;

/// Where a page's first slot is at most: behind the pointer, aligned to a slot of 640 bytes at most.
const MAX_FIRST: u64 = 1024;

/// Pages that must have the address in the same word: a process begins with some hundreds.
const ENOUGH: usize = 8;

/// TRANSIENT_HEAP_TOTAL_SIZE, TRANSIENT_HEAP_BLOCK_SIZE
const TRANSIENT_HEAP: u64 = 32 << 20;
const BLOCK: u64 = 32 << 10;

/// The page at the end of each stack of a fiber.
const GUARD: u64 = 4096;

pub(super) fn find(scene: &Scene<'_>, found: &mut Found) {
    let Some(image) = scene.named(&["libruby", "ruby"]) else { return };
    let mut by_word: BTreeMap<usize, Vec<AddrRange>> = BTreeMap::new();
    scene.each_aligned(PAGE, |at| {
        if let Some(word) = start(scene, at) {
            by_word.entry(word).or_default().push(AddrRange::sized(at, PAGE));
        }
        true
    });
    let Some(pages) = by_word.into_values().max_by_key(Vec::len).filter(|p| p.len() >= ENOUGH) else { return };
    let first = pages.first().map_or(Addr::NULL, |p| p.start);
    let evidence = format!("{} (first: {first}) with a heap_page that points back", count(pages.len() as u64, "page"));
    let owner = image.owner;
    found.add(pages, &Label::derived(Kind::RuntimeHeap, owner, "Ruby: pages of objects", evidence));
    let evidence = "a pointer in Ruby's data to 32 MiB in blocks that lead to each other";
    found.add(transient(scene, image), &Label::derived(Kind::RuntimeHeap, owner, "Ruby: transient heap", evidence));
    let evidence = "ranges of one size with a page without access between each two, in a process of Ruby's";
    found.add(fibers(scene), &Label::heuristic(Kind::RuntimeHeap, owner, "Ruby: stacks of fibers", evidence));
}

/// The transient heap (transient_heap.c, 2.6 to 3.2): one reservation in blocks of 32 KiB, each with the next free
/// one in its second word.
fn transient(scene: &Scene<'_>, image: &Image<'_>) -> Vec<AddrRange> {
    let arena = |at: Addr| {
        let range = AddrRange::sized(at, TRANSIENT_HEAP);
        scene.open_at(at).filter(|open| open.covers(&range))?;
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

/// The pool of fibers' stacks (cont.c), which are all of one size, each with a guard.
fn fibers(scene: &Scene<'_>) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let next = |a: &AddrRange, b: &AddrRange| a.len() == b.len() && b.start.checked_since(a.end) == Some(GUARD);
    for row in scene.open().chunk_by(next).filter(|row| row.len() >= ENOUGH) {
        out.extend_from_slice(row);
    }
    out
}

/// Which word of the heap_page leads back to the page at `at`.
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

    fn ask(name: &str, back: u64) -> usize {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 0x1000);
        for i in 0..8u64 {
            let (at, page) = (0x4000_0000 + i * PAGE, 0x1_0000 + i * 128);
            lab.map(at, 4096).put(at, &[page]).put(page + 32, &[at + back]);
        }
        lab.ask(find, (name, range(0x1_0000, 0x1000)), &[range(0x4000_0000, 8 * PAGE)]).len()
    }

    #[test]
    fn a_heap_page_must_point_back() {
        assert_eq!(ask("libruby-3.1.so.3.1", 0x28), 1);
        assert_eq!(ask("libruby-3.1.so.3.1", 0x28 + PAGE), 0);
        assert_eq!(ask("perl", 0x28), 0);
    }
}

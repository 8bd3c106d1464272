//! V8 (Node.js, Chromium, Deno): pages of its heap.
//!
//! `MemoryChunk`: size, flags, the heap, start and end of the page's area. Both lie in the page itself, and all pages of an isolate
//! have the same heap. Source: V8 basic-memory-chunk.h of 8 to 11; measured on Node.js 20 (V8 11.3). From V8 12 on
//! a page's head has only flags and an index.

use std::collections::BTreeMap;

use super::found::{Found, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::map::Kind;
use crate::units::count;

/// kPageSizeBits: 18; a large object's page is longer.
const PAGE: u64 = 256 << 10;

/// Where a page's area begins at most: behind the head and, in pages of code, a guard.
const MAX_HEAD: u64 = 64 << 10;

/// Pages that must agree on their heap where no module is named for V8: an isolate begins with more.
const ENOUGH: usize = 8;

/// Programs and libraries with V8 in them.
const NAMES: &[&str] = &["node", "libnode", "libv8", "chrom", "electron", "deno", "nwjs", "d8", "code"];

pub(super) fn find(scene: &Scene<'_>, found: &mut Found) {
    let image = scene.named(NAMES);
    // Elsewhere only where the first place of some large range of memory is a page.
    if image.is_none() && !scene.starts(PAGE).into_iter().any(|at| page(scene, at).is_some()) {
        return;
    }
    let mut heaps: BTreeMap<Addr, Vec<AddrRange>> = BTreeMap::new();
    scene.each_aligned(PAGE, |at| {
        if let Some((heap, range)) = page(scene, at) {
            heaps.entry(heap).or_default().push(range);
        }
        true
    });
    let enough = if image.is_some() { 2 } else { ENOUGH };
    for (heap, pages) in heaps.into_iter().filter(|(_, pages)| pages.len() >= enough) {
        let owner = image.map_or(crate::map::Owner::None, |i| i.owner);
        let evidence = format!(
            "{} by their heads, which lead to heap {heap} and to their own area",
            count(pages.len() as u64, "page")
        );
        found.add(pages, &Label::derived(Kind::RuntimeHeap, owner, "V8: heap pages", evidence));
    }
}

/// The heap that a page belongs to, and the page.
fn page(scene: &Scene<'_>, at: Addr) -> Option<(Addr, AddrRange)> {
    scene.open_at(at)?;
    let [size, _, heap, start, end] = scene.words(at)?;
    let range = AddrRange::sized(at, size);
    let area = AddrRange::new(Addr::new(start), Addr::new(end));
    let head = area.start.checked_since(at)?;
    let sound = size.is_multiple_of(4096)
        && range.end == at.saturating_add(size)
        && (1..=MAX_HEAD).contains(&head)
        && !area.is_empty()
        && range.covers(&area);
    let heap = Addr::new(heap);
    (sound && heap.is_aligned(8) && scene.memory.readable(heap, 8) == 8).then_some((heap, range))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    fn ask(name: &str, pages: u64, area: u64) -> usize {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64);
        for i in 0..pages {
            let at = 0x4000_0000 + i * PAGE;
            lab.map(at, 4096).put(at, &[PAGE, 4, 0x1_0000, at + area, at + PAGE]);
        }
        lab.ask(find, (name, range(0x1_0000, 64)), &[range(0x4000_0000, pages * PAGE)]).len()
    }

    #[test]
    fn pages_of_one_heap_are_v8s() {
        assert_eq!(ask("node", 2, 0x1148), 1);
        assert_eq!(ask("some-program", 8, 0x1148), 1);
    }

    #[test]
    fn one_page_or_an_area_elsewhere_is_nothing() {
        assert_eq!(ask("node", 1, 0x1148), 0);
        assert_eq!(ask("some-program", 7, 0x1148), 0);
        assert_eq!(ask("node", 2, 2 * PAGE), 0);
    }
}

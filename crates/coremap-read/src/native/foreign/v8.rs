//! V8 (Node.js, Chromium, Deno): pages of its heap.
//!
//! A page has metadata: its size, the heap, start and end of its area. Up to V8 12 they are the header of the page
//! itself (`MemoryChunk`). From 12.9 on the header has flags and a pointer to them (`MemoryChunkMetadata`). With the
//! sandbox, as in Chromium, it has a number instead of the pointer. The offsets of the fields differ by version, so
//! they are found by their contents: the offsets that fit most pages. Metadata outside the page have the page's address
//! too. Source: V8 memory-chunk.h, memory-chunk-metadata.h, basic-memory-chunk.h of 8 to 14.

use std::collections::{BTreeMap, BTreeSet};

use super::HEAP_OF;
use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::{Kind, Owner};

/// Page size in bytes (kPageSizeBits is 18). A large object's page is longer.
const HEAP_PAGE: u64 = 256 << 10;

/// Maximum offset of a page's area: after the header and, in code pages, a guard.
const MAX_HEAD: u64 = 64 << 10;

/// Minimum number of pages with the same heap if no module is named for V8. An isolate starts with more.
const ENOUGH: usize = 8;

/// Words of metadata in which the fields are searched. They are among the first 6 to 10.
const WORDS: usize = 16;

/// Name prefixes of programs and libraries that contain V8.
const NAMES: &[&str] = &["node", "libnode", "libv8", "chrom", "electron", "deno", "nwjs", "d8", "code"];

/// Location of a page's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MetadataLocation {
    Head,
    /// At the address in the header's second word.
    Pointer,
    /// In an allocator's memory, found by a search.
    Search,
}

/// Indexes of the metadata's fields, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Layout {
    size: usize,
    start: usize,
    pub end: usize,
}

/// A possible page.
struct Candidate {
    at: Addr,
    /// Address of its metadata.
    metadata: Addr,
    words: [u64; WORDS],
}

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let image = scene.named(NAMES);
    // Without a name, the first multiple of the page size in a large range must be a page.
    let seems = |at: &Addr| {
        let locations = [MetadataLocation::Head, MetadataLocation::Pointer];
        locations
            .into_iter()
            .any(|location| candidate(scene, location, *at).is_some_and(|c| !layouts(scene, &c).is_empty()))
    };
    if image.is_none() && !scene.starts(HEAP_PAGE).iter().any(seems) {
        return;
    }
    let enough = if image.is_some() { 2 } else { ENOUGH };
    let owner = image.map_or(Owner::None, |i| i.owner);
    let mut known = false;
    for location in [MetadataLocation::Head, MetadataLocation::Pointer] {
        let mut list = Vec::new();
        scene.each_aligned(HEAP_PAGE, |at| {
            list.extend(candidate(scene, location, at));
            list.len() < limits::MAX_FOREIGN_RANGES
        });
        known |= add_results(scene, location, &list, enough, owner, found);
    }
    if !known && image.is_some() {
        add_results(scene, MetadataLocation::Search, &searched(scene), enough, owner, found);
    }
}

/// Returns the page at `at`, if its metadata can be read and fit a layout.
fn candidate(scene: &Scene<'_>, location: MetadataLocation, at: Addr) -> Option<Candidate> {
    scene.unclaimed_at(at)?;
    let metadata = match location {
        MetadataLocation::Head => at,
        _ => scene.words::<2>(at).map(|[_, to]| Addr::new(to)).filter(|to| to.is_aligned(8) && *to != at)?,
    };
    described(scene, at, metadata)
}

/// Returns the page at `at`, whose metadata is at `metadata`.
fn described(scene: &Scene<'_>, at: Addr, metadata: Addr) -> Option<Candidate> {
    let words: [u64; WORDS] = scene.words(metadata)?;
    let candidate = Candidate { at, metadata, words };
    // Most candidates are no pages, and are not worth storing.
    let its = metadata == at || words.contains(&at.get());
    (its && !layouts(scene, &candidate).is_empty()).then_some(candidate)
}

/// Returns the layouts that fit a page's metadata.
fn layouts(scene: &Scene<'_>, page: &Candidate) -> Vec<Layout> {
    let words = || page.words.iter().enumerate().map(|(i, w)| (i, *w));
    let mut out = Vec::new();
    for (start, first) in words().filter(|(_, w)| Addr::new(*w).checked_since(page.at).is_some_and(is_head)) {
        for (size, len) in words().filter(|(_, w)| *w > 0 && w.is_multiple_of(4096)) {
            let Some(range) = sized(page.at, len) else { continue };
            let area = |last: u64| AddrRange::new(Addr::new(first), Addr::new(last));
            for (end, _) in words().filter(|(_, w)| *w > first && range.covers(&area(*w))) {
                // A page that is not mapped to its end is none.
                if scene.unclaimed_at(range.end.saturating_sub(1)).is_some() {
                    out.push(Layout { size, start, end });
                }
            }
        }
    }
    out
}

fn is_head(bytes: u64) -> bool {
    (1..=MAX_HEAD).contains(&bytes)
}

/// Returns a range of that size, unless it exceeds the address space.
fn sized(at: Addr, len: u64) -> Option<AddrRange> {
    at.checked_add(len).map(|end| AddrRange::new(at, end))
}

/// Adds results for the pages that agree on a layout and a heap. Returns whether there were any.
fn add_results(
    scene: &Scene<'_>,
    location: MetadataLocation,
    list: &[Candidate],
    enough: usize,
    owner: Owner,
    found: &mut Findings,
) -> bool {
    let mut votes: BTreeMap<Layout, usize> = BTreeMap::new();
    for page in list {
        for layout in layouts(scene, page) {
            *votes.entry(layout).or_default() += 1;
        }
    }
    let Some((layout, _)) = votes.into_iter().max_by_key(|(layout, n)| (*n, std::cmp::Reverse(*layout))) else {
        return false;
    };
    let pages: Vec<&Candidate> = list.iter().filter(|p| layouts(scene, p).contains(&layout)).collect();
    let Some(heap_at) = heap_word(scene, &pages, layout) else { return false };
    let mut heaps: BTreeMap<Addr, Vec<AddrRange>> = BTreeMap::new();
    for page in pages {
        let words = page.words.get(heap_at).zip(page.words.get(layout.size));
        if let Some((heap, size)) = words.filter(|(heap, _)| is_pointer(scene, **heap)) {
            for word in [heap_at, layout.size, layout.start, layout.end] {
                scene.keep(page.metadata.saturating_add(8 * word as u64), 1);
            }
            heaps.entry(Addr::new(*heap)).or_default().extend(sized(page.at, *size));
        }
    }
    let what = match location {
        MetadataLocation::Head => "whose headers point",
        MetadataLocation::Pointer => "whose headers point to metadata that points",
        MetadataLocation::Search => "described by metadata in allocator memory that points",
    };
    let mut known = false;
    heaps.retain(|_, pages| pages.len() >= enough);
    let several = heaps.len() > 1;
    for (heap, pages) in heaps {
        let detail = if several { format!("V8: heap pages{HEAP_OF}{heap}") } else { "V8: heap pages".to_owned() };
        let code = code_ranges(scene, &pages);
        let evidence = format!("{} pages {what} to heap {heap} and to their own area", pages.len());
        found.add(pages, &Label::derived(Kind::RuntimeHeap, owner, detail, evidence));
        let evidence = "writable and executable memory that contains V8 heap pages";
        found.add(code, &Label::heuristic(Kind::RuntimeHeap, owner, "V8: rest of the code range", evidence));
        known = true;
    }
    known
}

/// Returns the index of the metadata's heap word: the last before the area's start whose value most pages share with
/// another page.
fn heap_word(scene: &Scene<'_>, pages: &[&Candidate], layout: Layout) -> Option<usize> {
    (0..layout.start).rev().find(|&i| {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for word in pages.iter().filter_map(|p| p.words.get(i)).filter(|w| is_pointer(scene, **w)) {
            *counts.entry(*word).or_default() += 1;
        }
        counts.values().filter(|n| **n > 1).sum::<usize>() * 2 > pages.len()
    })
}

fn is_pointer(scene: &Scene<'_>, word: u64) -> bool {
    let to = Addr::new(word);
    to.is_aligned(8) && scene.memory.readable(to, 8) == 8
}

/// Returns the writable and executable mappings that contain a page. V8 reserves one for all its code.
fn code_ranges(scene: &Scene<'_>, pages: &[AddrRange]) -> Vec<AddrRange> {
    let holds = |r: &&AddrRange| pages.iter().any(|p| r.contains(p.start));
    scene.executable.iter().filter(holds).copied().collect()
}

/// Finds pages whose header does not lead to their metadata, by searching for the page's address.
fn searched(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut left = limits::MAX_V8_SEARCH;
    let mut seen = BTreeSet::new();
    let mut out = Vec::new();
    for range in scene.unclaimed().iter().filter(|r| !scene.executable.iter().any(|x| x.contains(r.start))) {
        for part in scene.memory.readable_parts(*range, u64::MAX) {
            let part = AddrRange::sized(part.start, part.len().min(left));
            left = left.saturating_sub(part.len());
            scene.each_word(part, |addr, word| {
                let at = Addr::new(word);
                if !at.is_aligned(HEAP_PAGE) || seen.contains(&at) || scene.unclaimed_at(at).is_none() {
                    return;
                }
                // The address is near the start of the metadata, after at most two words.
                let starts = (0..3).filter_map(|i| addr.checked_sub(8 * i));
                if let Some(page) = starts.into_iter().find_map(|d| described(scene, at, d)) {
                    seen.insert(at);
                    out.push(page);
                }
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const FIRST: u64 = 0x4000_0000;
    const OWN: u64 = 0x2_0000;

    fn at(i: u64) -> u64 {
        FIRST + i * HEAP_PAGE
    }

    /// Pages with metadata made by `words`. The metadata are at `metadata`, to which the header's second word may
    /// point.
    fn recognise(
        name: &str,
        pages: u64,
        location: MetadataLocation,
        words: impl Fn(u64) -> Vec<u64>,
    ) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(0x1_0000, 64).map(OWN, 0x10000);
        for i in 0..pages {
            let metadata = if location == MetadataLocation::Head { at(i) } else { OWN + 8 + i * 256 };
            lab.map(at(i), 4096)
                .put(at(i), &[0x10, if location == MetadataLocation::Pointer { metadata } else { 7 * i }]);
            lab.put(metadata, &words(at(i)));
        }
        lab.recognise(find, (name, range(0x1_0000, 64)), &[range(FIRST, pages * HEAP_PAGE), range(OWN, 0x10000)])
    }

    /// Metadata of V8 11, 12.4 and 13.6.
    fn v11(at: u64) -> Vec<u64> {
        vec![HEAP_PAGE, 4, 0x1_0000, at + 0x1148, at + HEAP_PAGE, 0x3_eec8]
    }

    fn v12(at: u64) -> Vec<u64> {
        vec![0x12, at, HEAP_PAGE, 0x1_0000, at + 0x1140, at + HEAP_PAGE, 0x3_eec0]
    }

    fn v13(at: u64) -> Vec<u64> {
        vec![0x1_0020, at, HEAP_PAGE, 0x3_fff0, 0, 16, HEAP_PAGE, at + HEAP_PAGE, 0x1_0000, at + 16, 0x1_0030]
    }

    #[test]
    fn pages_of_one_heap_are_v8s_wherever_their_fields_are() {
        for (location, words) in [
            (MetadataLocation::Head, v11 as fn(u64) -> Vec<u64>),
            (MetadataLocation::Head, v12),
            (MetadataLocation::Pointer, v13),
        ] {
            let found = recognise("node", 2, location, words);
            assert_eq!((found.len(), found[0].0), (1, range(FIRST, 2 * HEAP_PAGE)), "{location:?}");
            assert!(found[0].1.evidence.contains("heap 0x10000"), "{}", found[0].1.evidence);
            assert_eq!(recognise("some-program", 8, location, words).len(), 1, "{location:?}");
            assert!(recognise("some-program", 7, location, words).is_empty(), "{location:?}");
        }
    }

    /// Each isolate has a heap of its own.
    #[test]
    fn isolates_are_told_apart() {
        let words = |at: u64| {
            let mut words = v11(at);
            words[2] += 16 * (at / HEAP_PAGE % 2);
            words
        };
        let found = recognise("node", 8, MetadataLocation::Head, words);
        let mut details: Vec<&str> = found.iter().map(|(_, label)| label.detail.as_str()).collect();
        details.sort_unstable();
        details.dedup();
        assert_eq!(details, ["V8: heap pages of heap 0x10000", "V8: heap pages of heap 0x10010"]);
    }

    #[test]
    fn with_the_sandbox_a_description_is_found_by_its_pages_address() {
        assert_eq!(recognise("chrome", 3, MetadataLocation::Search, v13)[0].0, range(FIRST, 3 * HEAP_PAGE));
        // Without a name there is no search.
        assert!(recognise("some-program", 9, MetadataLocation::Search, v13).is_empty());
    }

    #[test]
    fn one_page_or_an_area_elsewhere_is_nothing() {
        assert!(recognise("node", 1, MetadataLocation::Head, v11).is_empty());
        let elsewhere = |at| vec![HEAP_PAGE, 4, 0x1_0000, at + 2 * HEAP_PAGE, at + 3 * HEAP_PAGE];
        assert!(recognise("node", 2, MetadataLocation::Head, elsewhere).is_empty());
        // Metadata of another page.
        assert!(recognise("node", 2, MetadataLocation::Pointer, |at| v13(at + 16 * HEAP_PAGE)).is_empty());
    }
}

//! jemalloc and tcmalloc: allocators that find what holds a page in a map of two or three levels.
//!
//! The upper level is a table in the allocator's own data, each of its words leads to a leaf, or by way of a node to many, and a leaf has
//! an entry for each page: the structure of the extent (jemalloc) or span (tcmalloc) that holds the page, which
//! says where it begins and how long it is. So each entry proves itself: the structure must hold the very page whose word led to
//! it, and all entries of the upper level must lie within the image's data. That holds whatever the module is called, and where the
//! allocator is linked into the program.
//!
//! Sources: jemalloc 5 rtree.h (`rtree_leaf_elm_t`, compact leaves), edata.h and base.c; gperftools pagemap.h (`TCMalloc_PageMap2`)
//! and span.h. Measured on jemalloc 5.3.0 and gperftools 2.10.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{Found, Label, UnreadHeap};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::map::Kind;
use crate::words::AllocatorName;

/// Bits of an address that the maps tell apart (LG_VADDR, kAddressBits). jemalloc takes 57 where the machine that it was built on had
/// page tables of five levels.
const ADDRESS_BITS: u32 = 48;
const MORE_ADDRESS_BITS: u32 = 57;

/// Places in a range of memory at which a leaf is tried, and pages looked at from each on.
const SAMPLES: u64 = 16;
const NEAR: u64 = 64;

/// Largest range of memory in which a heap is looked for.
const MAX_RANGE: u64 = 1 << 40;

/// Structures that must be proven before a map is believed in an image that is not named for the allocator.
const ENOUGH: usize = 8;

/// What of one allocator differs from the other.
struct Map {
    name: &'static str,
    /// Modules that are it.
    modules: &'static [&'static str],
    /// Symbols it exports.
    symbols: &'static [&'static str],
    /// What the structure behind an entry is called.
    structure: &'static str,
    /// Words of it that are read.
    words: u64,
    /// How it may have been built.
    shapes: &'static [Shape],
    /// Reads an entry.
    holder: fn(&Scene<'_>, u64, u32) -> Option<Holder>,
}

/// How large the tables of a map are.
#[derive(Clone, Copy)]
struct Shape {
    /// Bits of an address within a page.
    page: u32,
    /// Bits of an address in all.
    address: u32,
    levels: u32,
    /// Bytes of a leaf's entry, which begins with the word that leads to the structure.
    entry: u64,
}

impl Shape {
    const fn new(page: u32) -> Shape {
        Shape { page, address: ADDRESS_BITS, levels: 2, entry: 8 }
    }

    /// Bits of a page's number that each level tells apart, the upper one first; 0 for the node that there is not.
    fn bits(self) -> [u32; 3] {
        let all = self.address - self.page;
        let upper = all / self.levels;
        // The rest of the division goes to the lower levels (rtree_levels).
        let node = if self.levels == 3 { upper + all % 3 / 2 } else { 0 };
        [upper, node, all - upper - node]
    }

    /// Bytes of the upper level.
    fn root_len(self) -> u64 {
        8 << self.bits()[0]
    }

    /// Bytes of a node.
    fn node_len(self) -> u64 {
        8 << self.bits()[1]
    }

    /// Bytes of a leaf.
    fn leaf_len(self) -> u64 {
        self.entry << self.bits()[2]
    }

    /// Bits of an address that one leaf covers.
    fn leaf_span(self) -> u32 {
        self.bits()[2] + self.page
    }
}

/// What holds a page.
#[derive(Clone, Copy)]
struct Holder {
    /// Its structure.
    at: Addr,
    /// Its memory.
    range: AddrRange,
}

const MAPS: [Map; 2] = [
    Map {
        name: "jemalloc",
        modules: &["libjemalloc"],
        symbols: &["mallocx", "je_mallocx", "malloc_stats_print"],
        structure: "edata",
        words: 3,
        shapes: &[
            Shape::new(12),
            // With more bits of address there is no room left in a word for the size class: entries have two.
            Shape { page: 12, address: MORE_ADDRESS_BITS, levels: 3, entry: 16 },
            // 64 KiB is how it is built for arm64.
            Shape::new(16),
        ],
        holder: edata,
    },
    Map {
        name: "tcmalloc",
        modules: &["libtcmalloc"],
        symbols: &["tc_malloc", "MallocExtension_GetNumericProperty"],
        structure: "Span",
        words: 2,
        shapes: &[Shape::new(13), Shape::new(12), Shape::new(15), Shape::new(16)],
        holder: span,
    },
];

/// `rtree_leaf_elm_t.le_bits`: the edata_t's address in bits 0 to 47, size class above; the lowest bits are flags, since the structure is
/// aligned to 64 bytes at least. `edata_t`: e_bits, e_addr, e_size_esn, of which all but the lowest
/// 12 bits are the size.
fn edata(scene: &Scene<'_>, word: u64, page: u32) -> Option<Holder> {
    let at = Addr::new(((word << 16) as i64 >> 16) as u64 & !0x3f);
    scene.open_at(at)?;
    let [_, start, size] = scene.words(at)?;
    let start = Addr::new(start).align_down(1 << page);
    let range = AddrRange::sized(start, size & !0xfff);
    // What is not mapped in one piece is no extent, but an object with two words that look so.
    let whole = scene.open_at(start).is_some_and(|open| open.covers(&range));
    (whole && range.end.is_aligned(1 << page)).then_some(Holder { at, range })
}

/// `Span`: its first page's number, and how many pages.
fn span(scene: &Scene<'_>, word: u64, page: u32) -> Option<Holder> {
    let at = Addr::new(word);
    scene.open_at(at).filter(|_| at.is_aligned(8))?;
    let [first, count] = scene.words(at)?;
    let fits = |n: u64| n >> (ADDRESS_BITS - page) == 0;
    let range = AddrRange::sized(Addr::new(first << page), count << page);
    let whole = scene.open_at(range.start).is_some_and(|open| open.covers(&range));
    (fits(first) && fits(count) && count > 0 && whole).then_some(Holder { at, range })
}

/// Look in every image whose data has room for the upper level.
pub(super) fn find(scene: &Scene<'_>, found: &mut Found) {
    for image in &scene.images {
        for map in &MAPS {
            // 1 MiB for tcmalloc; 2 MiB for jemalloc, less where pages are larger or levels are three.
            let fits = |shape: &&Shape| image.data_len() >= shape.root_len();
            if !map.shapes.iter().any(|shape| fits(&shape)) {
                continue;
            }
            let named = map.modules.iter().any(|m| image.name.starts_with(m));
            let known = named || image.exports(scene.memory, map.symbols);
            for &shape in map.shapes.iter().filter(fits) {
                let read = Reader { scene, map, shape };
                let parts = read.all(image);
                if parts.holders >= if known { 1 } else { ENOUGH } {
                    parts.slots.iter().for_each(|slot| scene.keep(*slot, shape.entry / 8));
                    parts.extents.iter().for_each(|(at, _)| scene.keep(*at, map.words));
                    parts.say(map, image, scene, found);
                    break;
                }
            }
        }
    }
}

/// What was found of one map.
#[derive(Default)]
struct Parts {
    holders: usize,
    /// Memory that is given out, or free and kept.
    memory: Vec<AddrRange>,
    /// Structures, with the memory of each.
    extents: Vec<(Addr, AddrRange)>,
    /// Entries that lead to them.
    slots: Vec<Addr>,
    leaves: Vec<AddrRange>,
    /// Where structures lie, by MiB.
    structures: BTreeSet<Addr>,
}

impl Parts {
    fn say(self, map: &Map, image: &Image<'_>, scene: &Scene<'_>, found: &mut Found) {
        let (name, owner) = (map.name, image.owner);
        let leaf = self.leaves.first().map_or(Addr::NULL, |l| l.start);
        let evidence = format!(
            "{} of {}: the page map's leaf at {leaf} maps each one's page back to it",
            self.holders, map.structure
        );
        found.add(self.memory, &Label::derived(Kind::Allocator, owner, name, evidence));
        let own = format!("{name}: page map");
        let evidence = format!("a leaf that points to {} proven structures", self.holders);
        found.add(self.leaves, &Label::derived(Kind::Allocator, owner, own, evidence));
        let own = format!("{name}: allocator structures");
        let allocator = match name {
            "jemalloc" => Some(AllocatorName::Jemalloc),
            "tcmalloc" => Some(AllocatorName::Tcmalloc),
            _ => None,
        };
        let unread = |name| UnreadHeap { name, owner, holders: self.extents, open: scene.open().into() };
        found.heaps.extend(allocator.map(unread));
        if name == "jemalloc" {
            let blocks = base_blocks(scene);
            let evidence = "base_block_t: its edata_t's free space ends where the block ends";
            found.add(blocks, &Label::derived(Kind::Allocator, owner, own.as_str(), evidence));
        }
        if name != "tcmalloc" {
            return;
        }
        // Spans lie in memory that was taken in one piece and is described nowhere.
        let around = self.structures.iter().filter_map(|&at| scene.open_at(at)).collect();
        let evidence = format!("the mapping contains a {} or a leaf of the page map", map.structure);
        found.add(around, &Label::heuristic(Kind::Allocator, owner, own, evidence));
    }
}

/// Reads one map.
struct Reader<'a> {
    scene: &'a Scene<'a>,
    map: &'a Map,
    shape: Shape,
}

impl Reader<'_> {
    fn all(&self, image: &Image<'_>) -> Parts {
        let mut parts = Parts::default();
        let data = union(image.writable.clone());
        let windows = self.windows();
        let mut left = limits::MAX_PAGE_MAP_TRIES;
        // Leaves and nodes are aligned to a cache line at least.
        for pointer in self.scene.pointers(image, 64).into_iter().take(limits::MAX_PAGE_MAP_LEAVES) {
            let of = |index: u64| self.root(pointer.place, index).is_some_and(|r| data.iter().any(|d| d.covers(&r)));
            for window in windows.iter().filter(|(index, _)| of(**index)).flat_map(|(_, windows)| windows) {
                left -= 1;
                if left == 0 {
                    return parts;
                }
                let Some(leaf) = self.leaf(pointer.to, *window) else { continue };
                if self.is_leaf(leaf, *window) {
                    self.read(leaf, *window, &mut parts);
                    parts.leaves.push(AddrRange::sized(leaf, self.shape.leaf_len()));
                    if leaf != pointer.to {
                        parts.leaves.push(AddrRange::sized(pointer.to, self.shape.node_len()));
                    }
                }
            }
        }
        parts
    }

    /// The upper level, if its entry of that number stands at `place`.
    fn root(&self, place: Addr, index: u64) -> Option<AddrRange> {
        Some(AddrRange::sized(place.checked_sub(8 * index)?, self.shape.root_len()))
    }

    /// The leaf for a window, of what an entry of the upper level leads to: itself, or the node above it.
    fn leaf(&self, to: Addr, window: AddrRange) -> Option<Addr> {
        let [_, node, _] = self.shape.bits();
        if node == 0 {
            return Some(to);
        }
        let index = window.start.since(Addr::NULL) >> self.shape.leaf_span() & ((1 << node) - 1);
        let leaf = self.scene.memory.ptr(to.checked_add(8 * index)?).ok()?;
        (leaf.is_aligned(64) && self.scene.open_at(leaf).is_some()).then_some(leaf)
    }

    /// The parts of the address space that have open memory, each as much as one leaf covers, by the number of the upper level's entry
    /// for them.
    fn windows(&self) -> BTreeMap<u64, BTreeSet<AddrRange>> {
        let [_, node, _] = self.shape.bits();
        let size = 1u64 << self.shape.leaf_span();
        let mut out: BTreeMap<u64, BTreeSet<AddrRange>> = BTreeMap::new();
        let of = |r: &AddrRange| {
            let first = r.start.align_down(size);
            let count = r.end.since(first).div_ceil(size);
            (0..count).filter_map(move |i| first.checked_add(i * size))
        };
        // What is larger is a reservation (the shadow of a sanitizer has 14 TiB), in which nobody has a heap everywhere.
        let open = self.scene.open().iter().filter(|r| r.len() <= MAX_RANGE);
        for start in open.flat_map(of).take(limits::MAX_PAGE_MAP_WINDOWS) {
            let index = start.since(Addr::NULL) >> (self.shape.leaf_span() + node);
            out.entry(index).or_default().insert(AddrRange::sized(start, size));
        }
        out
    }

    /// The word of a leaf for a page.
    fn slot(&self, leaf: Addr, window: AddrRange, at: Addr) -> Addr {
        leaf.saturating_add(self.shape.entry * (at.since(window.start) >> self.shape.page))
    }

    /// What the word at `slot` leads to, if that proves itself.
    fn holder(&self, leaf: Addr, window: AddrRange, slot: Addr, word: u64) -> Option<Holder> {
        if !slot.since(leaf).is_multiple_of(self.shape.entry) {
            return None;
        }
        // The size class and flags (le_metadata), which are 32 bits, and never none of a page in use.
        let more = || self.scene.memory.u64(slot.saturating_add(8)).is_ok_and(|w| w != 0 && w >> 32 == 0);
        if self.shape.entry > 8 && (word & 0x3f != 0 || !more()) {
            return None;
        }
        let at = window.start.checked_add((slot.since(leaf) / self.shape.entry) << self.shape.page)?;
        (self.map.holder)(self.scene, word, self.shape.page).filter(|h| h.range.contains(at))
    }

    fn is_leaf(&self, leaf: Addr, window: AddrRange) -> bool {
        let page = 1 << self.shape.page;
        self.scene.open_within(window).into_iter().any(|r| {
            let step = (r.len() / SAMPLES).max(page);
            let places = (0..SAMPLES).filter_map(|i| r.start.checked_add(i * step)).filter(|at| r.contains(*at));
            // Of a large extent only the first and the last page have a word.
            places.map(|at| AddrRange::sized(at.align_down(page), NEAR << self.shape.page)).any(|near| {
                let slots = AddrRange::new(self.slot(leaf, window, near.start), self.slot(leaf, window, near.end));
                let mut proven = false;
                self.scene.each_word(slots, |slot, word| {
                    proven |= self.holder(leaf, window, slot, word).is_some();
                });
                proven
            })
        })
    }

    fn read(&self, leaf: Addr, window: AddrRange, parts: &mut Parts) {
        for open in self.scene.open_within(window) {
            let slots = AddrRange::new(self.slot(leaf, window, open.start), self.slot(leaf, window, open.end));
            let (mut past, mut last) = (open.start, None);
            self.scene.each_word(slots, |slot, word| {
                // Pages within have the same entry, as far as they have one.
                if last == Some(word) && parts.slots.len() < limits::MAX_FOREIGN_STEPS {
                    parts.slots.push(slot);
                }
                if slot < self.slot(leaf, window, past) || parts.holders >= limits::MAX_FOREIGN_STEPS {
                    return;
                }
                if let Some(h) = self.holder(leaf, window, slot, word) {
                    parts.holders += 1;
                    parts.memory.push(h.range);
                    if parts.extents.len() < limits::MAX_FOREIGN_EXTENTS {
                        parts.extents.push((h.at, h.range));
                    }
                    if last != Some(word) {
                        parts.slots.push(slot);
                    }
                    last = Some(word);
                    parts.structures.insert(h.at.align_down(1 << 20));
                    past = h.range.end.min(window.end);
                }
            });
        }
    }
}

/// Blocks of jemalloc's own memory, `base_block_t`: size, next, and an edata_t {bits, addr, size} of what is
/// left of the block. They are multiples of 2 MiB, and aligned so.
fn base_blocks(scene: &Scene<'_>) -> Vec<AddrRange> {
    const HUGE: u64 = 2 << 20;
    let mut out = Vec::new();
    scene.each_aligned(HUGE, |at| {
        if let Some([size, next, _, rest, left]) = scene.words(at) {
            let block = AddrRange::sized(at, size);
            let next = Addr::new(next);
            let fits = size > 0 && size.is_multiple_of(HUGE) && next.is_aligned(HUGE);
            if fits && block.contains(Addr::new(rest)) && Addr::new(rest).checked_add(left) == Some(block.end) {
                scene.keep(at, 5);
                out.push(block);
            }
        }
        true
    });
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const DATA: u64 = 0x10_0000;
    const HEAP: u64 = 0x40_4000_0000;
    const OWN: u64 = 0x41_0000_0000;

    /// A root at DATA + 0x1000, a leaf and two structures at OWN; `word` makes an entry of a structure, `structure`
    /// tells where its memory is.
    fn ask(page: u32, slots: [u64; 2], structures: [[u64; 3]; 2], early: u64) -> Vec<(AddrRange, Label)> {
        let leaf_bits = Shape::new(page).bits()[2];
        let mut lab = Lab::default();
        lab.map(DATA, 3 << 20).put(DATA + 0x1000 + 8 * (HEAP >> (leaf_bits + page)) - early, &[OWN]);
        lab.map(OWN, 4 << 20).map(HEAP, 0x10000);
        for (i, structure) in structures.into_iter().enumerate() {
            let at = OWN + (3 << 20) + 128 * i as u64;
            lab.put(at, &structure);
            lab.put(OWN + 8 * (((HEAP >> page) + slots[i]) & ((1 << leaf_bits) - 1)), &[at]);
        }
        lab.ask(find, ("libjemalloc.so.2", range(DATA, 3 << 20)), &[range(HEAP, 0x10000), range(OWN, 4 << 20)])
    }

    #[test]
    fn extents_of_jemalloc_are_found_by_its_map() {
        let extents = [[0, HEAP, 0x3000], [0, HEAP + 0x4000, 0x1000 | 5]];
        let found = ask(12, [0, 4], extents, 0);
        assert_eq!(found[0].0, range(HEAP, 0x3000));
        assert_eq!(found[1].0, range(HEAP + 0x4000, 0x1000));
        assert_eq!(found[2].0, range(OWN, 2 << 20));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn an_extent_elsewhere_or_a_root_elsewhere_is_none() {
        assert!(ask(12, [3, 8], [[0, HEAP, 0x3000], [0, HEAP + 0x4000, 0x1000]], 0).is_empty());
        assert!(ask(12, [0, 4], [[0, HEAP, 0x3000], [0, HEAP + 0x4000, 0x1000]], 0x1008).is_empty());
        // Not in one piece: two words of some object.
        assert!(ask(12, [0, 4], [[0, HEAP, 1 << 40], [0, HEAP, 1 << 41]], 0).is_empty());
    }

    #[test]
    fn extents_are_found_by_a_map_of_three_levels_with_entries_of_two_words() {
        let (node, leaf) = (OWN, OWN + 0x4_0000);
        let ask = |slot: u64, more: u64| {
            let mut lab = Lab::default();
            // Entries for addresses of 4 TiB, and of 128 MiB.
            lab.map(DATA, 0x5_0000).put(DATA + 0x1000 + 8 * (HEAP >> 42), &[node]);
            lab.map(OWN, 4 << 20).map(HEAP, 0x10000);
            lab.put(node + 8 * (HEAP >> 27 & 0x7fff), &[leaf]);
            lab.put(leaf + 16 * (HEAP >> 12 & 0x7fff) + slot, &[OWN + (3 << 20), more]);
            lab.put(OWN + (3 << 20), &[0, HEAP, 0x3000]);
            let open = [range(HEAP, 0x10000), range(OWN, 4 << 20)];
            lab.ask(find, ("libjemalloc.so.2", range(DATA, 0x5_0000)), &open)
        };
        let found = ask(0, 0x0700_0001);
        assert_eq!((found[0].0, found[0].1.detail.as_str()), (range(HEAP, 0x3000), "jemalloc"));
        // Of an entry only its first word.
        assert!(ask(8, 0x0700_0001).is_empty());
        // Another map from pages, of mimalloc 3 as it was: words that lead to structures, and no size classes.
        assert!(ask(0, OWN + (3 << 20)).is_empty());
    }

    #[test]
    fn spans_of_tcmalloc_are_found_by_its_map() {
        // Eight of them, as the image is not named for it.
        let mut lab = Lab::default();
        lab.map(DATA, 3 << 20).put(DATA + 0x1000 + 8 * (HEAP >> 31), &[OWN]);
        lab.map(OWN, 4 << 20).map(HEAP, 0x10000);
        for i in 0..8 {
            let at = OWN + (3 << 20) + 48 * i;
            lab.put(at, &[(HEAP >> 13) + i, 1]).put(OWN + 8 * (((HEAP >> 13) + i) & ((1 << 18) - 1)), &[at]);
        }
        let open = [range(HEAP, 0x10000), range(OWN, 4 << 20)];
        let found = lab.ask(find, ("server", range(DATA, 3 << 20)), &open);
        assert_eq!((found[0].0, found[0].1.detail.as_str()), (range(HEAP, 0x10000), "tcmalloc"));
    }
}

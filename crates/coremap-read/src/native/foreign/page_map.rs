//! jemalloc and tcmalloc: allocators with a page map of two or three levels.
//!
//! The upper level is a table in the allocator's own data. Its words lead to leaves, with three levels through a node.
//! A leaf has an entry for each page: the structure of the extent (jemalloc) or span (tcmalloc) that contains the page.
//! That structure has its start and size. So each entry can be verified: the structure must contain the very page whose
//! word led to it, and all entries of the upper level must be in the image's data. This works whatever the module's
//! name is, and for allocators linked into the program.
//!
//! Sources: jemalloc 5 rtree.h (`rtree_leaf_elm_t`, compact leaves), edata.h and base.c; gperftools pagemap.h
//! (`TCMalloc_PageMap2`) and span.h. Measured on jemalloc 5.3.0 and gperftools 2.10.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::findings::{Findings, Label, UnreadHeap};
use super::scene::{DataWords, Image, Scene};
use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::map::Kind;
use crate::words::AllocatorName;

/// Address bits that the maps cover (LG_VADDR, kAddressBits). jemalloc uses 57 if the machine that built it had page
/// tables of five levels.
const ADDRESS_BITS: u32 = 48;
const MORE_ADDRESS_BITS: u32 = 57;

/// Number of positions in a large range of memory at which a leaf is tried, and pages tried from each position on.
const SAMPLES: u64 = 16;
const NEAR: u64 = 64;

/// Number of ranges in a window whose first pages are tried, largest first, and of those with [`SAMPLES`] positions.
const RANGES: usize = 128;
const SAMPLED_RANGES: usize = 8;

/// Maximum number of words of a leaf that prove nothing. A candidate with more is no leaf. An extent that another claim
/// partly covers proves nothing.
const UNPROVEN: usize = 64;

/// Words that an upper level may have for each window with unclaimed memory, and beyond that. Entries remain for
/// windows whose memory was unmapped, or belongs to somebody else.
const ENTRIES_PER_WINDOW: u64 = 4;
const MORE_ENTRIES: u64 = 64;

/// Number of upper levels in an image whose extents are read. Only damage has more than one.
const UPPER_LEVELS: usize = 8;

/// Maximum size in bytes of a range of memory in which a heap is searched.
const MAX_RANGE: u64 = 1 << 40;

/// Number of verified structures that a map needs if the image is not known to be the allocator.
const ENOUGH: usize = 8;

/// The properties of one allocator's map.
struct Map {
    name: &'static str,
    /// Prefixes of the allocator's module names.
    modules: &'static [&'static str],
    symbols: &'static [&'static str],
    /// Name of the structure behind an entry.
    structure: &'static str,
    /// Number of its words that are read.
    words: u64,
    /// Shapes that builds of it may have.
    shapes: &'static [Shape],
    read_entry: fn(&Scene<'_>, u64, u32) -> Option<PageOwner>,
}

/// The sizes of a map's tables.
#[derive(Clone, Copy)]
struct Shape {
    /// Number of address bits within a page.
    page: u32,
    /// Number of address bits in all.
    address: u32,
    levels: u32,
    /// Bytes of a leaf's entry. Its first word leads to the structure.
    entry: u64,
}

impl Shape {
    const fn new(page: u32) -> Shape {
        Shape { page, address: ADDRESS_BITS, levels: 2, entry: 8 }
    }

    /// Returns the bits of a page number that each level uses, upper level first. 0 for the node of a two-level map.
    fn bits(self) -> [u32; 3] {
        let all = self.address - self.page;
        let upper = all / self.levels;
        // The remainder of the division goes to the lower levels (rtree_levels).
        let node = if self.levels == 3 { upper + all % 3 / 2 } else { 0 };
        [upper, node, all - upper - node]
    }

    fn root_len(self) -> u64 {
        8 << self.bits()[0]
    }

    fn node_len(self) -> u64 {
        8 << self.bits()[1]
    }

    fn leaf_len(self) -> u64 {
        self.entry << self.bits()[2]
    }

    /// Number of address bits that one leaf covers.
    fn leaf_span(self) -> u32 {
        self.bits()[2] + self.page
    }
}

/// The extent or span that contains a page: the address of its structure, and its memory.
#[derive(Clone, Copy)]
struct PageOwner {
    at: Addr,
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
            // With 57 address bits, a word has no room for the size class, so entries have two words.
            Shape { page: 12, address: MORE_ADDRESS_BITS, levels: 3, entry: 16 },
            // 64 KiB pages are usual for arm64.
            Shape::new(16),
        ],
        read_entry: edata,
    },
    Map {
        name: "tcmalloc",
        modules: &["libtcmalloc"],
        symbols: &["tc_malloc", "MallocExtension_GetNumericProperty"],
        structure: "Span",
        words: 2,
        shapes: &[Shape::new(13), Shape::new(12), Shape::new(15), Shape::new(16)],
        read_entry: span,
    },
];

/// Reads jemalloc's entry. `rtree_leaf_elm_t.le_bits` has the edata_t's address in bits 0 to 47 and the size class
/// above. The lowest bits are flags, since the structure is aligned to at least 64 bytes. `edata_t` is e_bits, e_addr
/// and e_size_esn, which is the size except for the lowest 12 bits.
fn edata(scene: &Scene<'_>, word: u64, page: u32) -> Option<PageOwner> {
    let at = Addr::new(((word << 16) as i64 >> 16) as u64 & !0x3f);
    scene.unclaimed_at(at)?;
    let [_, start, size] = scene.words(at)?;
    let start = Addr::new(start).align_down(1 << page);
    let range = AddrRange::sized(start, size & !0xfff);
    // An extent is mapped in one piece. Otherwise these are two words of another object.
    let whole = scene.unclaimed_at(start).is_some_and(|open| open.covers(&range));
    (whole && range.end.is_aligned(1 << page)).then_some(PageOwner { at, range })
}

/// Reads tcmalloc's entry. A `Span` begins with the number of its first page, and the number of pages.
fn span(scene: &Scene<'_>, word: u64, page: u32) -> Option<PageOwner> {
    let at = Addr::new(word);
    scene.unclaimed_at(at).filter(|_| at.is_aligned(8))?;
    let [first, count] = scene.words(at)?;
    let fits = |n: u64| n >> (ADDRESS_BITS - page) == 0;
    let range = AddrRange::sized(Addr::new(first << page), count << page);
    let whole = scene.unclaimed_at(range.start).is_some_and(|open| open.covers(&range));
    (fits(first) && fits(count) && count > 0 && whole).then_some(PageOwner { at, range })
}

/// Searches every image whose data has room for the upper level.
pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    for image in &scene.images {
        // 1 MiB for tcmalloc; 2 MiB for jemalloc, less with larger pages or three levels.
        let fits = |shape: &&Shape| image.data_len() >= shape.root_len();
        if !MAPS.iter().any(|map| map.shapes.iter().any(|shape| fits(&shape))) {
            continue;
        }
        // Leaves and nodes are aligned at least to a cache line.
        let data = Data { words: scene.data_words(image, 64), parts: union(image.writable.clone()) };
        for map in &MAPS {
            let known = OnceCell::new();
            let known = || {
                let named = || map.modules.iter().any(|m| image.name.starts_with(m));
                *known.get_or_init(|| named() || image.exports(scene.memory, map.symbols))
            };
            for &shape in map.shapes.iter().filter(fits) {
                let read = Reader { scene, map, shape };
                let parts = read.search(&data);
                if parts.owners >= ENOUGH || parts.owners > 0 && known() {
                    parts.slots.iter().for_each(|slot| scene.keep(*slot, shape.entry / 8));
                    parts.extents.iter().for_each(|(at, _)| scene.keep(*at, map.words));
                    parts.add_results(map, shape, image, scene, found);
                    break;
                }
            }
        }
    }
}

/// The data of an image.
struct Data {
    words: DataWords,
    /// Disjoint and sorted.
    parts: Vec<AddrRange>,
}

/// The contents of one map.
#[derive(Default)]
struct MapContents {
    owners: usize,
    /// Memory that is allocated, or free and retained.
    memory: Vec<AddrRange>,
    /// Structures, each with its memory.
    extents: Vec<(Addr, AddrRange)>,
    /// Entries that lead to them.
    slots: Vec<Addr>,
    leaves: Vec<AddrRange>,
    /// Addresses of structures, rounded down to 1 MiB.
    structures: BTreeSet<Addr>,
}

impl MapContents {
    fn add_results(self, map: &Map, shape: Shape, image: &Image<'_>, scene: &Scene<'_>, found: &mut Findings) {
        let (name, owner) = (map.name, image.owner);
        let leaf = self.leaves.first().map_or(Addr::NULL, |l| l.start);
        let evidence = format!(
            "{} of {}: the page map's leaf at {leaf} maps each one's page back to it",
            self.owners, map.structure
        );
        found.add(self.memory, &Label::derived(Kind::Allocator, owner, name, evidence));
        let own = format!("{name}: page map");
        let evidence = format!("a leaf that points to {} proven structures", self.owners);
        found.add(self.leaves, &Label::derived(Kind::Allocator, owner, own, evidence));
        let own = format!("{name}: allocator structures");
        let allocator = match name {
            "jemalloc" => Some(AllocatorName::Jemalloc),
            "tcmalloc" => Some(AllocatorName::Tcmalloc),
            _ => None,
        };
        let unread = |name| UnreadHeap {
            name,
            owner,
            structures: self.extents,
            page: 1 << shape.page,
            unclaimed: scene.unclaimed().into(),
        };
        found.heaps.extend(allocator.map(unread));
        if name == "jemalloc" {
            let blocks = base_blocks(scene);
            let evidence = "base_block_t: its edata_t's free space ends where the block ends";
            found.add(blocks, &Label::derived(Kind::Allocator, owner, own.as_str(), evidence));
        }
        if name != "tcmalloc" {
            return;
        }
        // The mapping that contains the spans is described nowhere.
        let around = self.structures.iter().filter_map(|&at| scene.unclaimed_at(at)).collect();
        let evidence = format!("the mapping contains a {} or a leaf of the page map", map.structure);
        found.add(around, &Label::heuristic(Kind::Allocator, owner, own, evidence));
    }
}

struct Reader<'a> {
    scene: &'a Scene<'a>,
    map: &'a Map,
    shape: Shape,
}

/// A range of the address space that one leaf covers.
struct Window {
    range: AddrRange,
    /// Pages at which a leaf is tried.
    probes: OnceCell<Vec<AddrRange>>,
}

/// The ranges of the address space that one leaf covers and that have unclaimed memory, by the index of their entry in
/// the upper level.
type Windows = BTreeMap<u64, Vec<Window>>;

/// Result of testing a candidate for a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeafProof {
    /// An entry leads to a structure that contains the entry's page.
    Proven,
    /// The words are not entries.
    Refuted,
    /// Undecided: the candidate has too few words, or the budget of steps is spent.
    Open,
}

impl Reader<'_> {
    /// Returns the contents of the upper level with the most structures.
    fn search(&self, data: &Data) -> MapContents {
        let windows = self.windows();
        let mut steps = limits::MAX_PAGE_MAP_STEPS;
        let mut best = MapContents::default();
        let mut read = 0;
        for root in self.roots(data, &windows) {
            if steps == 0 || best.owners >= ENOUGH || read >= UPPER_LEVELS {
                break;
            }
            let parts = self.contents(root, data, &windows, &mut steps);
            read += usize::from(parts.owners > 0);
            if parts.owners > best.owners {
                best = parts;
            }
        }
        best
    }

    /// Returns the addresses where an upper level may start, those with entries for the most windows first.
    fn roots(&self, data: &Data, windows: &Windows) -> Vec<Addr> {
        let len = self.shape.root_len();
        let max_entries = (windows.len() as u64).saturating_mul(ENTRIES_PER_WINDOW).saturating_add(MORE_ENTRIES);
        let mut entries: HashMap<Addr, u32> = HashMap::new();
        let mut left = limits::MAX_PAGE_MAP_TRIES;
        for pointer in &data.words.pointers {
            let part = data.parts.partition_point(|part| part.end <= pointer.at);
            let Some(part) = data.parts.get(part).filter(|part| part.contains(pointer.at)) else { continue };
            let Some(last) = part.end.checked_sub(len).filter(|last| *last >= part.start) else { continue };
            // The entries that the pointer can be of a table within the data.
            let first = pointer.at.checked_since(last).unwrap_or(0).div_ceil(8);
            let last = pointer.at.since(part.start) / 8;
            // Empty, if the data is not aligned.
            if first > last {
                continue;
            }
            for &index in windows.range(first..=last).map(|(index, _)| index) {
                if left == 0 {
                    break;
                }
                left -= 1;
                let Some(root) = index.checked_mul(8).and_then(|offset| pointer.at.checked_sub(offset)) else { break };
                if data.words.min_nonzero(AddrRange::sized(root, len)) <= max_entries {
                    let count = entries.entry(root).or_default();
                    *count = count.saturating_add(1);
                }
            }
        }
        let mut roots: Vec<(Reverse<u32>, Addr)> = entries.into_iter().map(|(root, n)| (Reverse(n), root)).collect();
        roots.sort_unstable();
        roots.into_iter().map(|(_, root)| root).collect()
    }

    /// Reads the map whose upper level starts at `root`. Nothing, if its first leaf proves that it is none.
    fn contents(&self, root: Addr, data: &Data, windows: &Windows, steps: &mut u64) -> MapContents {
        let mut parts = MapContents::default();
        // Once proven, a map is read to its end.
        let mut own_steps = limits::MAX_PROVEN_PAGE_MAP_STEPS;
        for pointer in data.words.pointers_in(AddrRange::sized(root, self.shape.root_len())) {
            let of_window = windows.get(&(pointer.at.since(root) / 8));
            for window in of_window.into_iter().flatten() {
                let steps = if parts.owners > 0 { &mut own_steps } else { &mut *steps };
                let Some(left) = steps.checked_sub(1) else { return parts };
                *steps = left;
                let Some(leaf) = self.leaf(pointer.to, window.range) else { continue };
                match self.prove(leaf, window, steps) {
                    LeafProof::Proven => {
                        self.read(leaf, window.range, &mut parts);
                        parts.leaves.push(AddrRange::sized(leaf, self.shape.leaf_len()));
                        if leaf != pointer.to {
                            parts.leaves.push(AddrRange::sized(pointer.to, self.shape.node_len()));
                        }
                    }
                    LeafProof::Refuted if parts.owners == 0 => return parts,
                    LeafProof::Refuted | LeafProof::Open => {}
                }
            }
        }
        parts
    }

    /// Returns the leaf of a window. `to` is the leaf itself, or with three levels the node above it.
    fn leaf(&self, to: Addr, window: AddrRange) -> Option<Addr> {
        let [_, node, _] = self.shape.bits();
        if node == 0 {
            return Some(to);
        }
        let index = window.start.since(Addr::NULL) >> self.shape.leaf_span() & ((1 << node) - 1);
        let leaf = self.scene.memory.ptr(to.checked_add(8 * index)?).ok()?;
        (leaf.is_aligned(64) && self.scene.unclaimed_at(leaf).is_some()).then_some(leaf)
    }

    fn windows(&self) -> Windows {
        let [_, node, _] = self.shape.bits();
        let size = 1u64 << self.shape.leaf_span();
        let mut out = Windows::new();
        let of = |r: &AddrRange| {
            let first = r.start.align_down(size);
            let count = r.end.since(first).div_ceil(size);
            (0..count).filter_map(move |i| first.checked_add(i * size))
        };
        // A larger range is a reservation (a sanitizer's shadow has 14 TiB), and no heap fills it.
        let open = self.scene.unclaimed().iter().filter(|r| r.len() <= MAX_RANGE);
        let (mut last, mut left) = (None, limits::MAX_PAGE_MAP_WINDOWS);
        // Ranges are sorted, so equal windows are adjacent.
        for start in open.flat_map(of) {
            if last.replace(start) == Some(start) {
                continue;
            }
            if left == 0 {
                break;
            }
            left -= 1;
            let index = start.since(Addr::NULL) >> (self.shape.leaf_span() + node);
            let window = Window { range: AddrRange::sized(start, size), probes: OnceCell::new() };
            out.entry(index).or_default().push(window);
        }
        out
    }

    /// Returns the pages of a window at which a leaf is tried. An allocator's extents begin where its mappings begin.
    fn probes(&self, window: AddrRange) -> Vec<AddrRange> {
        let page = 1 << self.shape.page;
        let mut ranges = self.scene.unclaimed_within(window);
        ranges.sort_unstable_by_key(|r| (Reverse(r.len()), r.start));
        let further = ranges.iter().take(SAMPLED_RANGES).flat_map(|r| {
            let step = (r.len() / SAMPLES).max(page);
            (1..SAMPLES).filter_map(move |i| r.start.checked_add(i * step)).filter(|at| r.contains(*at))
        });
        let positions = ranges.iter().take(RANGES).map(|r| r.start).chain(further);
        // A large extent has entries only for its first and last page.
        let near = |at: Addr| AddrRange::sized(at.align_down(page), NEAR << self.shape.page);
        positions.filter_map(|at| near(at).intersect(&window)).collect()
    }

    /// Returns the address of the entry for the page of `at`.
    fn slot(&self, leaf: Addr, window: AddrRange, at: Addr) -> Addr {
        leaf.saturating_add(self.shape.entry * (at.since(window.start) >> self.shape.page))
    }

    /// Returns the extent or span that the word at `slot` leads to, if it contains the page.
    fn page_owner(&self, leaf: Addr, window: AddrRange, slot: Addr, word: u64) -> Option<PageOwner> {
        if !slot.since(leaf).is_multiple_of(self.shape.entry) {
            return None;
        }
        // The second word has size class and flags (le_metadata). It has 32 bits, and is never 0 for a page in use.
        let more = || self.scene.memory.u64(slot.saturating_add(8)).is_ok_and(|w| w != 0 && w >> 32 == 0);
        if self.shape.entry > 8 && (word & 0x3f != 0 || !more()) {
            return None;
        }
        let at = window.start.checked_add((slot.since(leaf) / self.shape.entry) << self.shape.page)?;
        (self.map.read_entry)(self.scene, word, self.shape.page).filter(|h| h.range.contains(at))
    }

    fn prove(&self, leaf: Addr, window: &Window, steps: &mut u64) -> LeafProof {
        let (mut proven, mut unproven) = (false, 0);
        for near in window.probes.get_or_init(|| self.probes(window.range)) {
            if *steps == 0 {
                break;
            }
            *steps -= 1;
            let slots =
                AddrRange::new(self.slot(leaf, window.range, near.start), self.slot(leaf, window.range, near.end));
            self.scene.each_word(slots, |slot, word| {
                // Entries of two words have further data in the second.
                if !proven && unproven < UNPROVEN && slot.since(leaf).is_multiple_of(self.shape.entry) {
                    *steps = steps.saturating_sub(1);
                    proven = self.page_owner(leaf, window.range, slot, word).is_some();
                    unproven += usize::from(!proven);
                }
            });
            if proven {
                return LeafProof::Proven;
            }
            if unproven >= UNPROVEN {
                return LeafProof::Refuted;
            }
        }
        LeafProof::Open
    }

    fn read(&self, leaf: Addr, window: AddrRange, parts: &mut MapContents) {
        for open in self.scene.unclaimed_within(window) {
            let slots = AddrRange::new(self.slot(leaf, window, open.start), self.slot(leaf, window, open.end));
            let (mut past, mut last) = (open.start, None);
            self.scene.each_word(slots, |slot, word| {
                // Inner pages have the same entry, or none.
                if last == Some(word) && parts.slots.len() < limits::MAX_FOREIGN_STEPS {
                    parts.slots.push(slot);
                }
                if slot < self.slot(leaf, window, past) || parts.owners >= limits::MAX_FOREIGN_STEPS {
                    return;
                }
                if let Some(h) = self.page_owner(leaf, window, slot, word) {
                    parts.owners += 1;
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

/// Finds the blocks of jemalloc's own memory. A `base_block_t` is size, next, and an edata_t {bits, addr, size} of its
/// free space. The blocks are multiples of 2 MiB, and aligned to 2 MiB.
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

    /// A root at DATA + 0x1000, and a leaf and two structures at OWN.
    fn recognise(page: u32, slots: [u64; 2], structures: [[u64; 3]; 2], early: u64) -> Vec<(AddrRange, Label)> {
        let leaf_bits = Shape::new(page).bits()[2];
        let mut lab = Lab::default();
        lab.map(DATA, 3 << 20).put(DATA + 0x1000 + 8 * (HEAP >> (leaf_bits + page)) - early, &[OWN]);
        lab.map(OWN, 4 << 20).map(HEAP, 0x10000);
        for (i, structure) in structures.into_iter().enumerate() {
            let at = OWN + (3 << 20) + 128 * i as u64;
            lab.put(at, &structure);
            lab.put(OWN + 8 * (((HEAP >> page) + slots[i]) & ((1 << leaf_bits) - 1)), &[at]);
        }
        lab.recognise(find, ("libjemalloc.so.2", range(DATA, 3 << 20)), &[range(HEAP, 0x10000), range(OWN, 4 << 20)])
    }

    #[test]
    fn extents_of_jemalloc_are_found_by_its_map() {
        let extents = [[0, HEAP, 0x3000], [0, HEAP + 0x4000, 0x1000 | 5]];
        let found = recognise(12, [0, 4], extents, 0);
        assert_eq!(found[0].0, range(HEAP, 0x3000));
        assert_eq!(found[1].0, range(HEAP + 0x4000, 0x1000));
        assert_eq!(found[2].0, range(OWN, 2 << 20));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn an_extent_elsewhere_or_a_root_elsewhere_is_none() {
        assert!(recognise(12, [3, 8], [[0, HEAP, 0x3000], [0, HEAP + 0x4000, 0x1000]], 0).is_empty());
        assert!(recognise(12, [0, 4], [[0, HEAP, 0x3000], [0, HEAP + 0x4000, 0x1000]], 0x1008).is_empty());
        // Not mapped in one piece: two words of another object.
        assert!(recognise(12, [0, 4], [[0, HEAP, 1 << 40], [0, HEAP, 1 << 41]], 0).is_empty());
    }

    #[test]
    fn extents_are_found_by_a_map_of_three_levels_with_entries_of_two_words() {
        let (node, leaf) = (OWN, OWN + 0x4_0000);
        let recognise = |slot: u64, more: u64| {
            let mut lab = Lab::default();
            // Entries of the upper level cover 4 TiB, entries of a node 128 MiB.
            lab.map(DATA, 0x5_0000).put(DATA + 0x1000 + 8 * (HEAP >> 42), &[node]);
            lab.map(OWN, 4 << 20).map(HEAP, 0x10000);
            lab.put(node + 8 * (HEAP >> 27 & 0x7fff), &[leaf]);
            lab.put(leaf + 16 * (HEAP >> 12 & 0x7fff) + slot, &[OWN + (3 << 20), more]);
            lab.put(OWN + (3 << 20), &[0, HEAP, 0x3000]);
            let open = [range(HEAP, 0x10000), range(OWN, 4 << 20)];
            lab.recognise(find, ("libjemalloc.so.2", range(DATA, 0x5_0000)), &open)
        };
        let found = recognise(0, 0x0700_0001);
        assert_eq!((found[0].0, found[0].1.detail.as_str()), (range(HEAP, 0x3000), "jemalloc"));
        // Only the first word of an entry can lead to a structure.
        assert!(recognise(8, 0x0700_0001).is_empty());
        // A map of mimalloc 3 from pages to structures, without size classes.
        assert!(recognise(0, OWN + (3 << 20)).is_empty());
    }

    /// Pointers in data, one every `step` bytes, to as many mappings, each full of such pointers.
    fn reads_of_pointers(count: u64, step: usize) -> u64 {
        let (data, size, stride) = (8 << 20, 0x2000, 0x4000);
        let mut lab = Lab::default();
        let to = |i: u64| HEAP + stride * (i % count) + 64 * (i * 7 % (size / 64));
        let word = |i: usize| if (8 * i).is_multiple_of(step) { to(i as u64) } else { 0 };
        lab.map(DATA, data).put(DATA, &(0..data / 8).map(word).collect::<Vec<u64>>());
        let mappings: Vec<AddrRange> = (0..count).map(|i| range(HEAP + stride * i, size)).collect();
        for mapping in &mappings {
            let words: Vec<u64> = (0..size / 8).map(to).collect();
            lab.map(mapping.start.get(), size as usize).put(mapping.start.get(), &words);
        }
        let found = lab.recognise(find, ("app", range(DATA, data as u64)), &mappings);
        assert!(found.is_empty());
        lab.reads.into_inner()
    }

    #[test]
    fn the_search_does_not_grow_with_pointers_and_mappings() {
        // A full table, a sparse one, and one so sparse that it may be an upper level.
        for step in [8, 512, 1 << 15] {
            let (few, many) = (reads_of_pointers(50, step), reads_of_pointers(1600, step));
            let bound = MAPS.iter().map(|map| map.shapes.len() as u64).sum::<u64>() * 2 * limits::MAX_PAGE_MAP_STEPS;
            assert!(few <= bound && many <= bound, "{few} and {many} reads, one pointer every {step} bytes");
        }
    }

    #[test]
    fn spans_of_tcmalloc_are_found_by_its_map() {
        // Eight spans, since the image is not named for the allocator.
        let mut lab = Lab::default();
        lab.map(DATA, 3 << 20).put(DATA + 0x1000 + 8 * (HEAP >> 31), &[OWN]);
        lab.map(OWN, 4 << 20).map(HEAP, 0x10000);
        for i in 0..8 {
            let at = OWN + (3 << 20) + 48 * i;
            lab.put(at, &[(HEAP >> 13) + i, 1]).put(OWN + 8 * (((HEAP >> 13) + i) & ((1 << 18) - 1)), &[at]);
        }
        let open = [range(HEAP, 0x10000), range(OWN, 4 << 20)];
        let found = lab.recognise(find, ("server", range(DATA, 3 << 20)), &open);
        assert_eq!((found[0].0, found[0].1.detail.as_str()), (range(HEAP, 0x10000), "tcmalloc"));
    }
}

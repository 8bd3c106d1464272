//! Blocks of jemalloc: which blocks of its extents are allocated, and which of these are in threads' caches.
//!
//! An extent that is allocated whole is one block. Its size is the extent's, less a page of padding if the allocator
//! has cache_oblivious. Up to 5.3.0 that is the size of its class. From 5.3.1 on, blocks above 512 KiB may be smaller
//! than their class (`disable_large_size_classes`, on by default).
//!
//! A slab is an extent of equal blocks with a bit for each free one. The number of set bits must equal the slab's count
//! of free blocks. A block in a thread's cache is allocated by these bits. A cache is an array of `cache_bin_t` in the
//! thread's TLS, and its stacks contain only such blocks.
//!
//! Sources: jemalloc 5.3 edata.h (`edata_usize_get`), cache_bin.h and sc.h; 5.2 extent_structs.h. Measured on 5.3.0 and
//! 5.3.1. Caches before 5.3 are not read.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::map::Owner;
use crate::native::malloc::extents::{Extent, ExtentHeap};
use crate::sums::SaturatingSum;
use crate::units::count;
use crate::words::AllocatorName;

/// Number of words of an `edata_t` (`extent_t` before 5.3) up to the end of a slab's bits. The second constant is the
/// index of the first of these bits' words.
const WORDS: usize = 16;
const SLAB: usize = 8;

/// Words of a slab's bits, and maximum number of its blocks (SC_LG_SLAB_MAXREGS).
const SLAB_WORDS: usize = 8;
const MOST: u64 = 64 * SLAB_WORDS as u64;

/// Number of size classes on 64 bits.
const CLASSES: u64 = 232;

/// Bit positions of fields in `e_bits`.
#[derive(Clone, Copy)]
struct Form {
    slab: u32,
    state: u32,
    state_bits: u32,
    class: u32,
    free: u32,
}

const FORMS: [Form; 2] = [
    // 5.3
    Form { slab: 12, state: 17, state_bits: 3, class: 20, free: 28 },
    // 5.1, 5.2
    Form { slab: 12, state: 16, state_bits: 2, class: 18, free: 26 },
];

/// Inverse of the share of bytes whose structures may be inconsistent, since the dump may be taken during changes.
const BAD_SHARE_DIVISOR: u64 = 20;

/// Number of pages in the smallest class that is allocated as an extent (SC_LARGE_MINCLASS).
const LARGE_PAGES: u64 = 4;

/// Size of `cache_bin_t` in bytes, and bounds on the number of consecutive bins of a cache. There is a bin for each of
/// the 36 small classes, and more.
const BIN: u64 = 24;
const LEAST_BINS: usize = 30;
const MOST_BINS: usize = 128;

/// Bytes of TLS below and above a thread pointer in which a cache is searched.
const TLS: u64 = 16 << 10;

/// Returns the size of a class in bytes (sc.h): 8, then four classes 16 bytes apart, then four per doubling.
fn class_size(index: u64) -> Option<u64> {
    let Some(i) = index.checked_sub(1).filter(|_| index < CLASSES) else { return (index == 0).then_some(8) };
    let (group, rest) = (i / 4, i % 4 + 1);
    match group.checked_sub(1) {
        None => Some(16 * rest),
        Some(group) => (64_u64 << group).checked_add((16_u64 << group).checked_mul(rest)?),
    }
}

/// The fields of a structure contradict each other.
struct Inconsistent;

/// Returns the size of the block in an extent that is allocated whole. The extent has `len` bytes, and the class has
/// this `index`.
fn block_size(len: u64, index: u64, page: u64, pad: u64) -> Option<u64> {
    let class = class_size(index)?;
    // A small block that the profiler sampled has an extent to itself.
    if class < LARGE_PAGES.saturating_mul(page) {
        return Some(class);
    }
    let below = index.checked_sub(1).and_then(class_size).unwrap_or(0);
    // The class is the one that the size rounds up to. Otherwise the extent is larger than its block.
    len.checked_sub(pad).filter(|size| (below..class).contains(&(size.wrapping_sub(1)))).or(Some(class))
}

impl Form {
    fn field(words: &[u64; WORDS], at: u32, width: u32) -> u64 {
        words[0] >> at & ((1 << width) - 1)
    }

    /// Returns the padding of extents that are allocated whole: a page with cache_oblivious, otherwise nothing.
    fn padding(self, structures: &[([u64; WORDS], AddrRange)], page: u64) -> u64 {
        let (mut with, mut without) = (0_u64, 0_u64);
        for (words, range) in structures {
            if Self::field(words, self.state, self.state_bits) != 0 || Self::field(words, self.slab, 1) != 0 {
                continue;
            }
            let Some(class) = class_size(Self::field(words, self.class, 8)) else { continue };
            // Only with padding, a block may begin within a page.
            let moved = !Addr::new(words[1]).is_aligned(page);
            with += u64::from(moved || class.checked_add(page) == Some(range.len()));
            without += u64::from(!moved && class == range.len());
        }
        if with > without { page } else { 0 }
    }

    /// Returns the extent of a structure, if it is allocated. `page` is the size of a page, `pad` the padding of an
    /// extent that is allocated whole.
    fn read(self, words: &[u64; WORDS], range: AddrRange, page: u64, pad: u64) -> Result<Option<Extent>, Inconsistent> {
        let field = |at: u32, width: u32| Self::field(words, at, width);
        if field(self.state, self.state_bits) != 0 {
            return Ok(None);
        }
        let index = field(self.class, 8);
        let start = Addr::new(words[1]);
        if field(self.slab, 1) == 0 {
            let size = block_size(range.len(), index, page, pad).ok_or(Inconsistent)?;
            // The block begins at a random offset in its extent (cache_oblivious).
            let fits = range.covers(&AddrRange::sized(start, size));
            return if fits { Ok(Some(Extent { range, start, size, slab: None })) } else { Err(Inconsistent) };
        }
        let size = class_size(index).filter(|size| *size <= range.len()).ok_or(Inconsistent)?;
        let blocks = range.len() / size;
        let mut slab = [0; SLAB_WORDS];
        for (i, (to, from)) in slab.iter_mut().zip(words.iter().skip(SLAB)).enumerate() {
            let here = blocks.saturating_sub(64 * i as u64).min(64) as u32;
            *to = from & u64::MAX.checked_shr(64 - here).unwrap_or(0);
        }
        let free: u64 = slab.iter().map(|word| u64::from(word.count_ones())).sum();
        let sound =
            range.len().is_multiple_of(size) && blocks <= MOST && start == range.start && free == field(self.free, 10);
        if sound { Ok(Some(Extent { range, start, size, slab: Some(Box::new(slab)) })) } else { Err(Inconsistent) }
    }
}

/// The structures as one form of `e_bits` reads them.
#[derive(Default)]
struct Reading {
    extents: Vec<Extent>,
    /// Number of inconsistent structures.
    unsound: u64,
    /// Bytes of the extents whose structures are inconsistent.
    unknown: u64,
}

/// Reads the heap from the extents' structures. `page` is the size of a page. `None` if no form of `e_bits` fits them.
pub(super) fn heap(scene: &Scene<'_>, structures: &[(Addr, AddrRange)], page: u64, owner: Owner) -> Option<ExtentHeap> {
    let words: Vec<([u64; WORDS], AddrRange)> =
        structures.iter().filter_map(|(at, range)| Some((scene.words(*at)?, *range))).collect();
    let tried = FORMS.iter().map(|form| {
        let pad = form.padding(&words, page);
        let mut reading = Reading::default();
        for (words, range) in &words {
            match form.read(words, *range, page, pad) {
                Ok(extent) => reading.extents.extend(extent),
                Err(Inconsistent) => {
                    reading.unsound += 1;
                    reading.unknown = reading.unknown.saturating_add(range.len());
                }
            }
        }
        reading
    });
    let Reading { mut extents, unsound, unknown } = tried.min_by_key(|reading| reading.unsound)?;
    let slabs = extents.iter().filter(|e| e.slab.is_some()).count();
    let committed = structures.iter().map(|(_, range)| range.len()).saturating_sum();
    let read = words.iter().map(|(_, range)| range.len()).saturating_sum();
    // The slabs prove the form: with another one, hardly any bitmap agrees with its count.
    let proven = slabs > 0 && unsound <= slabs as u64;
    let unknown = unknown.saturating_add(committed.saturating_sub(read));
    if !proven || unknown.saturating_mul(BAD_SHARE_DIVISOR) > committed {
        return None;
    }
    structures.iter().for_each(|(at, _)| scene.keep(*at, WORDS as u64));
    extents.sort_by_key(|e| e.range.start);
    extents.dedup_by(|next, kept| next.range.start < kept.range.end);
    let evidence = format!(
        "{} in the page map, and {} whose bitmaps agree with their free counts",
        count(structures.len() as u64, "extent"),
        count(slabs as u64, "slab")
    );
    let mut out = ExtentHeap {
        name: AllocatorName::Jemalloc,
        owner,
        committed,
        extents,
        cached: HashSet::new(),
        own: HashSet::new(),
        without_cache: 0,
        unsound: unsound.saturating_add((structures.len() - words.len()) as u64),
        unknown,
        evidence,
    };
    caches(scene, &mut out);
    Some(out)
}

fn caches(scene: &Scene<'_>, heap: &mut ExtentHeap) {
    let mut distance = None;
    let found: Vec<Option<Cache>> = scene
        .thread_pointers
        .iter()
        .map(|&thread| Finder { scene, extents: &heap.extents }.cache(thread, &mut distance))
        .collect();
    for cache in found {
        match cache {
            Some(cache) => {
                heap.cached.extend(cache.items);
                heap.own.extend(cache.stacks);
            }
            None => heap.without_cache += 1,
        }
    }
}

/// A thread's cache, or one bin of it.
#[derive(Default)]
struct Cache {
    items: Vec<Addr>,
    /// Blocks that contain its stacks. A stack still contains pointers to blocks that were already handed out.
    stacks: Vec<Addr>,
}

struct Finder<'a> {
    scene: &'a Scene<'a>,
    extents: &'a [Extent],
}

impl Finder<'_> {
    /// Returns the block that contains `addr`, if it is allocated.
    fn used_at(&self, addr: Addr) -> Option<Addr> {
        let i = self.extents.partition_point(|e| e.range.end <= addr);
        self.extents.get(i).filter(|e| e.range.contains(addr))?.used_at(addr)
    }

    /// Returns the cache in a thread's TLS. Its distance from the thread pointer is that of the first cache found,
    /// since the linker assigned it.
    fn cache(&self, thread: Addr, distance: &mut Option<i64>) -> Option<Cache> {
        if let Some(known) = *distance {
            let at = thread.checked_offset(known)?;
            // A thread that never allocated has no cache.
            let none = || self.scene.words(at).is_some_and(|[head]| head == 0).then(Cache::default);
            let found = self.bins(at);
            if let Some((bins, _)) = &found {
                self.keep(at, *bins);
            }
            return found.map(|(_, cache)| cache).or_else(none);
        }
        let places = (0..TLS / 4).map(|i| 8 * i as i64 - TLS as i64);
        let tried = places.filter_map(|at| Some((at, self.bins(thread.checked_offset(at)?)?)));
        // A later bin as the start would give fewer bins.
        let (at, (bins, cache)) = tried.max_by_key(|(at, (bins, _))| (*bins, Reverse(*at)))?;
        *distance = Some(at);
        self.keep(thread.checked_offset(at)?, bins);
        Some(cache)
    }

    /// Keeps the bins of a cache for `scrub`.
    fn keep(&self, at: Addr, bins: usize) {
        self.scene.keep(at, BIN / 8 * bins as u64);
    }

    /// Reads the consecutive bins from `at` on. Returns their number and contents.
    fn bins(&self, at: Addr) -> Option<(usize, Cache)> {
        let mut cache = Cache::default();
        let mut bins = 0;
        while bins < MOST_BINS {
            let Some(bin) = at.checked_add(BIN * bins as u64).and_then(|at| self.bin(at)) else { break };
            cache.items.extend(bin.items);
            cache.stacks.extend(bin.stacks);
            bins += 1;
        }
        (bins >= LEAST_BINS && !cache.stacks.is_empty()).then_some((bins, cache))
    }

    /// Reads a `cache_bin_t` of 5.3: the head of a stack that grows downwards; a count; and 16 bits each of the lowest
    /// head, of the full end and of the empty end. All blocks on the stack must be allocated.
    fn bin(&self, at: Addr) -> Option<Cache> {
        let [head, _, ends] = self.scene.words(at)?;
        let (full, empty) = ((ends >> 16) as u16, (ends >> 32) as u16);
        let (held, room) = (empty.wrapping_sub(head as u16), empty.wrapping_sub(full));
        let aligned = [head, held.into(), room.into()].iter().all(|n| n.is_multiple_of(8));
        let head = Addr::new(head);
        if !aligned || head < Addr::new(1 << 16) || held > room {
            return None;
        }
        let mut cache = Cache { items: Vec::new(), stacks: self.used_at(head).into_iter().collect() };
        let read = self.scene.memory.look(head, held.into()).ok()?;
        for word in read.as_chunks::<8>().0 {
            let item = Addr::new(u64::from_le_bytes(*word));
            cache.items.push(self.used_at(item).filter(|start| *start == item)?);
        }
        Some(cache)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const HEAP: u64 = 0x7f00_0000_0000;
    const OWN: u64 = 0x7e00_0000_0000;

    #[test]
    fn classes_are_those_of_the_documentation() {
        let sizes: Vec<u64> = (0..16).filter_map(class_size).collect();
        assert_eq!(sizes, [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448]);
        // The largest small class, the first large class, the last class.
        assert_eq!([35, 36, 231].map(class_size), [Some(14336), Some(16384), Some(7 << 60)]);
        assert_eq!([232, 255].map(class_size), [None; 2]);
    }

    /// Structures of either form: a slab of four blocks of 1,024 bytes, one of them free; a block of 16 KiB; a free
    /// extent.
    fn heap_of(form: Form, free: u64) -> Option<ExtentHeap> {
        let mut lab = Lab::default();
        let bits = |slab: u64, state: u64, class: u64, free: u64| {
            slab << form.slab | state << form.state | class << form.class | free << form.free
        };
        lab.map(OWN, 0x1000);
        lab.put(OWN, &[bits(1, 0, 20, free), HEAP, 0x1000]).put(OWN + 64, &[!0b1011]);
        lab.put(OWN + 128, &[bits(0, 0, 36, 0), HEAP + 0x2040, 0x5000]);
        lab.put(OWN + 256, &[bits(0, 1, 255, 0), HEAP + 0x8000, 0x1000]);
        let structures = [(OWN, 0x0, 0x1000), (OWN + 128, 0x2000, 0x5000), (OWN + 256, 0x8000, 0x1000)]
            .map(|(at, start, len)| (Addr::new(at), range(HEAP + start, len)));
        heap(&Scene::new(&lab, Vec::new(), Vec::new()), &structures, 0x1000, Owner::None)
    }

    #[test]
    fn both_forms_are_told_apart_by_what_agrees_with_itself() {
        for form in FORMS {
            let heap = heap_of(form, 1).unwrap_or_else(|| panic!("no heap"));
            let (used, idle, _) = heap.sums();
            assert_eq!((used.count, used.bytes, idle.count), (4, 3 * 1024 + 16384, 1));
            assert_eq!((heap.unsound, heap.committed), (0, 0x7000));
            // The count says 2, but one bit is set.
            assert!(heap_of(form, 2).is_none());
        }
    }

    #[test]
    fn a_block_above_512_kib_is_as_large_as_its_extent_less_the_padding() {
        // 3,000,000 bytes are 733 pages. Their class is number 66, 3 MiB; the one below has 2.5 MiB.
        let (len, asked) = (734 << 12, 733 << 12);
        assert_eq!([65, 66].map(class_size), [Some(0x28_0000), Some(0x30_0000)]);
        let page = 0x1000;
        assert_eq!(block_size(len, 66, page, page), Some(asked));
        assert_eq!(block_size(asked, 66, page, 0), Some(asked));
        // 1 MiB is a class of its own; one page less has the same number.
        assert_eq!(block_size((1 << 20) + page, 60, page, page), Some(1 << 20));
        assert_eq!(block_size(1 << 20, 60, page, page), Some((1 << 20) - page));
        assert_eq!(block_size(1 << 20, 60, page, 0), Some(1 << 20));
        // A sampled block of 100 bytes in an extent of 16 KiB and a page.
        assert_eq!(block_size(0x5000, 7, page, page), Some(112));
        assert_eq!(block_size(0x5000, 232, page, page), None);
    }

    /// A heap of 5.3.1: a slab; a block of 3,000,000 bytes; and an extent with the class number `class`, which is
    /// `state`.
    fn heap_with_large(class: u64, state: u64) -> Option<ExtentHeap> {
        let mut lab = Lab::default();
        let bits = |slab: u64, state: u64, class: u64, free: u64| slab << 12 | state << 17 | class << 20 | free << 28;
        lab.map(OWN, 0x1000);
        lab.put(OWN, &[bits(1, 0, 20, 1), HEAP, 0x1000]).put(OWN + 64, &[!0b1011]);
        lab.put(OWN + 128, &[bits(0, 0, 66, 0), HEAP + 0x1040, 734 << 12]);
        lab.put(OWN + 256, &[bits(0, state, class, 0), HEAP + 0x40_0000, 0x2_0000]);
        let structures = [(OWN, 0x0, 0x1000), (OWN + 128, 0x1000, 734 << 12), (OWN + 256, 0x40_0000, 0x2_0000)]
            .map(|(at, start, len)| (Addr::new(at), range(HEAP + start, len)));
        heap(&Scene::new(&lab, Vec::new(), Vec::new()), &structures, 0x1000, Owner::None)
    }

    #[test]
    fn large_blocks_of_5_3_1_are_in_use_and_what_contradicts_itself_is_unknown() {
        let heap = heap_with_large(255, 3).unwrap_or_else(|| panic!("no heap"));
        let (used, ..) = heap.sums();
        assert_eq!((used.count, used.bytes), (4, 3 * 1024 + (733 << 12)));
        assert_eq!((heap.unsound, heap.unknown), (0, 0));
        // Allocated, with a class of 3 MiB in 128 KiB: 4 % of the bytes, but a third of the structures.
        let heap = heap_with_large(66, 0).unwrap_or_else(|| panic!("no heap"));
        assert_eq!((heap.unsound, heap.unknown), (1, 0x2_0000));
    }
}

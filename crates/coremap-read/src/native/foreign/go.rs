//! Go: arenas of its heap, and the runtime's own structures.
//!
//! The image's data identifies it as Go's (`\xff Go buildinf:`). `mheap_.arenas` in the data leads to a table of arenas
//! by address. Its entries lead to `heapArena`s. A heapArena has, for each page of 8 KiB, the `mspan` that contains the
//! page, and the mspan has its start address. The offset of the spans in a heapArena differs by version, so it is found
//! by their contents. Source: runtime/mheap.go and malloc.go of Go 1.11 to 1.22; measured on 1.19.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, Label};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::targets::Arch;

/// buildInfoMagic (debug/buildinfo), at a multiple of 16.
const MAGIC: [u8; 14] = *b"\xff Go buildinf:";

/// Bytes at the start of an image's data in which the magic is searched. The linker puts its section first.
const MAX_BEFORE_MAGIC: u64 = 1 << 20;

/// heapArenaBytes, and arenaBaseOffset on amd64, where arena indexes start at the lowest 48-bit signed address.
const ARENA: u64 = 64 << 20;
const BASE_OFFSET: u64 = 0x8000_0000_0000;

/// Bytes of a heap page, and pages per arena.
const HEAP_PAGE: u64 = 8 << 10;
const PAGES: u64 = ARENA / HEAP_PAGE;

/// Offset of `mspan.startAddr`, after next, prev and list.
const START_ADDR: u64 = 24;

/// Number of arenas that are tried to choose the table of arenas. They are in the largest ranges of memory.
const PROBED: usize = 4;

/// Bytes per read while a span is searched. Most arenas have a span at their start.
const WINDOW: u64 = 4096;

/// Number of span words that are tried in a heapArena once their offset is known.
const TRIED: usize = PAGES as usize;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let Some(image) = scene.images.iter().find(|i| i.is_program && is_go(scene, i)) else { return };
    let pointers = scene.pointers(image, 8);
    let arenas: BTreeSet<Addr> =
        scene.unclaimed().iter().flat_map(|r| arenas_of(*r)).take(limits::MAX_FOREIGN_PROBES).collect();
    let mut tables: Vec<Addr> = pointers.iter().map(|p| p.to).filter(|to| to.is_aligned(4096)).collect();
    tables.sort_unstable();
    tables.dedup();
    // A few arenas choose the table, since there may be thousands of tables and of arenas.
    let some = scene.starts(1).into_iter().map(|at| at.align_down(ARENA)).take(PROBED).collect();
    let probed = tables.into_iter().map(|table| Arenas::read(scene, table, &some)).max_by_key(|a| a.list.len());
    let Some(table) = probed.filter(|a| !a.list.is_empty()).map(|a| a.table) else { return };
    let known = Arenas::read(scene, table, &arenas);
    let label = |text: &str, evidence: String| Label::derived(Kind::RuntimeHeap, image.owner, text, evidence);
    let evidence = format!(
        "the arena table at {} points to {} heapArenas, whose spans begin in their arenas",
        known.table,
        known.list.len()
    );
    found.add(known.list, &label("Go: heap", evidence));
    // The other structures are in mappings of their own. Pointers of the runtime's data lead into them.
    let holds = |at: Addr| scene.unclaimed_at(at);
    let own = known.structures.iter().copied().filter_map(holds);
    let evidence = "the mapping contains heapArenas, mspans or their table";
    let mut ranges: Vec<AddrRange> = own.collect();
    // In a program without a C library, nothing else maps memory.
    if scene.named(&["libc.so", "libc-2.", "ld-musl-", "libc.musl-"]).is_none() {
        ranges.extend(pointers.iter().filter_map(|p| holds(p.to)));
    }
    let label = Label::heuristic(Kind::RuntimeHeap, image.owner, "Go: the runtime's own structures", evidence);
    found.add(ranges, &label);
}

fn is_go(scene: &Scene<'_>, image: &Image<'_>) -> bool {
    let mut yes = false;
    let magic = u64::from_le_bytes(MAGIC.first_chunk().copied().unwrap_or_default());
    let rest = MAGIC.get(8..).unwrap_or_default();
    for part in &image.writable {
        let part = AddrRange::sized(part.start, part.len().min(MAX_BEFORE_MAGIC));
        scene.each_word(part, |at, word| {
            let rest_at = at.saturating_add(8);
            if word == magic && at.is_aligned(16) && scene.memory.look(rest_at, rest.len()).is_ok_and(|b| b == rest) {
                scene.memory.keep(at, MAGIC.len() as u64);
                yes = true;
            }
        });
    }
    yes
}

fn arenas_of(range: AddrRange) -> impl Iterator<Item = Addr> {
    let first = range.start.align_down(ARENA);
    let count = range.end.since(first).div_ceil(ARENA);
    (0..count).map(move |i| first.saturating_add(i * ARENA))
}

/// The arenas that one table leads to.
struct Arenas {
    table: Addr,
    list: Vec<AddrRange>,
    structures: BTreeSet<Addr>,
}

impl Arenas {
    fn read(scene: &Scene<'_>, table: Addr, arenas: &BTreeSet<Addr>) -> Arenas {
        let mut out = Arenas { table, list: Vec::new(), structures: BTreeSet::new() };
        // Offset of the spans in a heapArena, once one was found.
        let mut spans_at: Option<u64> = None;
        let base = if scene.arch == Arch::X86_64 { BASE_OFFSET } else { 0 };
        for &arena in arenas {
            let index = arena.wrapping_add(base).since(Addr::NULL) / ARENA;
            let header = table.checked_add(8 * index).and_then(|at| scene.memory.peek_u64(at).ok());
            let Some(header) = header.map(Addr::new) else { continue };
            if scene.unclaimed_at(header).is_none() {
                continue;
            }
            let first = match spans_at {
                Some(offset) => first_span(scene, header, offset, arena).map(|(addr, span)| (addr, span, offset)),
                None => first_agreeing(scene, header, arena),
            };
            let Some((addr, span, spans)) = first else { continue };
            if *spans_at.get_or_insert(spans) == spans {
                out.list.push(AddrRange::sized(arena, ARENA));
                out.structures.extend([table.saturating_add(8 * index), header, addr, span]);
            }
        }
        out
    }
}

/// A word of a heapArena that leads to an mspan of its arena.
struct SpanWord {
    /// Address of the word.
    addr: Addr,
    /// Index of the span's first page in the arena.
    page: u64,
    span: Addr,
}

/// Returns the first word that leads to the span that begins on the word's page, and the span. The spans begin at
/// `offset` in the heapArena. Words of pages that are free are stale: their span may be in use elsewhere.
fn first_span(scene: &Scene<'_>, header: Addr, offset: u64, arena: Addr) -> Option<(Addr, Addr)> {
    let spans = header.checked_add(offset)?;
    let mut found = None;
    each_span(scene, AddrRange::sized(spans, 8 * TRIED as u64), arena, |word| {
        if word.addr.since(spans) == 8 * word.page {
            found = Some((word.addr, word.span));
        }
        found.is_none()
    });
    found
}

/// Returns three values: the first word that leads to a span, the span, and the offset of the spans in the heapArena.
/// Another span must agree on that offset, unless there is only one span.
fn first_agreeing(scene: &Scene<'_>, header: Addr, arena: Addr) -> Option<(Addr, Addr, u64)> {
    let mut firsts: BTreeMap<u64, (Addr, Addr)> = BTreeMap::new();
    let mut order: Vec<u64> = Vec::new();
    let mut agreed = None;
    each_span(scene, AddrRange::sized(header, limits::MAX_GO_ARENA_HEADER), arena, |word| {
        let Some(offset) = word.addr.since(header).checked_sub(8 * word.page) else { return true };
        match firsts.get(&offset) {
            Some((_, span)) if *span != word.span => agreed = Some(offset),
            Some(_) => {}
            None => {
                firsts.insert(offset, (word.addr, word.span));
                order.push(offset);
            }
        }
        agreed.is_none() && order.len() < TRIED
    });
    let offset = agreed.or(order.first().copied())?;
    firsts.get(&offset).map(|(addr, span)| (*addr, *span, offset))
}

/// Visits the words of `range` that lead to spans of the arena, until `visit` returns `false`.
fn each_span(scene: &Scene<'_>, range: AddrRange, arena: Addr, mut visit: impl FnMut(SpanWord) -> bool) {
    let memory: &dyn Memory = scene.memory;
    let mut goes_on = true;
    for i in 0..range.len().div_ceil(WINDOW) {
        let Some(window) = AddrRange::sized(range.start.saturating_add(i * WINDOW), WINDOW).intersect(&range) else {
            break;
        };
        scene.each_word(window, |addr, word| {
            let span = Addr::new(word);
            if !goes_on || !span.is_aligned(8) || scene.unclaimed_at(span).is_none() {
                return;
            }
            let start = span.checked_add(START_ADDR).and_then(|at| memory.peek_u64(at).ok()).map(Addr::new);
            let inside = start.filter(|s| s.is_aligned(HEAP_PAGE)).and_then(|s| s.checked_since(arena));
            if let Some(offset) = inside.filter(|offset| *offset < ARENA) {
                goes_on = visit(SpanWord { addr, page: offset / HEAP_PAGE, span });
            }
        });
        if !goes_on {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;
    use crate::map::Owner;

    const HEAP: u64 = 0xc0_0000_0000;
    const TABLE: u64 = 0x7000_0000_0000;

    fn recognise(magic: &[u8; 16], start: u64) -> Vec<(AddrRange, Label)> {
        let word = |i: usize| crate::bytes::u64_at(magic, i).unwrap_or_default();
        let mut lab = Lab::default();
        lab.map(0x50_0000, 4096).put(0x50_0000, &[word(0), word(8)]).put(0x50_0100, &[TABLE]);
        let slot = TABLE + 8 * ((HEAP + BASE_OFFSET) / ARENA);
        lab.map(slot, 4096).put(slot, &[slot + 512]).put(slot + 512 + 64 + 8, &[slot + 1024]);
        lab.put(slot + 1024 + START_ADDR, &[start]);
        lab.map(HEAP, 4096);
        let open = [range(HEAP, 4 << 20), range(TABLE, 32 << 20)];
        lab.recognise(find, ("server", range(0x50_0000, 4096)), &open)
    }

    #[test]
    fn an_arena_whose_span_begins_in_it_is_gos() {
        let found = recognise(b"\xff Go buildinf:\x08\x02", HEAP + HEAP_PAGE);
        assert_eq!(found[0].0, range(HEAP, ARENA));
        assert_eq!((found[0].1.owner, found[0].1.detail.as_str()), (Owner::None, "Go: heap"));
    }

    /// The word of page 0, which is free, leads to a span that is used for page 5 now.
    #[test]
    fn a_stale_word_of_a_free_page_is_passed() {
        let magic = b"\xff Go buildinf:\x08\x02";
        let word = |i: usize| crate::bytes::u64_at(magic, i).unwrap_or_default();
        let mut lab = Lab::default();
        lab.map(0x50_0000, 4096).put(0x50_0000, &[word(0), word(8)]).put(0x50_0100, &[TABLE]);
        let slot = TABLE + 8 * ((HEAP + BASE_OFFSET) / ARENA);
        let (header, spans) = (slot + 512, slot + 512 + 64);
        let span = |page: u64| slot + 1024 + 64 * page;
        lab.map(slot, 4096).put(slot, &[header, header + 4096]);
        lab.put(spans, &[span(5), span(1), 0, 0, span(4), span(5)]);
        for page in [1, 4, 5] {
            lab.put(span(page) + START_ADDR, &[HEAP + page * HEAP_PAGE]);
        }
        // The next arena, with a stale word too.
        let next = HEAP + ARENA;
        lab.map(header + 4096, 4096).put(header + 4096 + 64, &[header + 6144, 0, 0, header + 6144]);
        lab.put(header + 6144 + START_ADDR, &[next + 3 * HEAP_PAGE]);
        lab.map(HEAP, 4096).map(next, 4096);
        let open = [range(HEAP, 2 * ARENA), range(TABLE, 32 << 20)];
        let found = lab.recognise(find, ("server", range(0x50_0000, 4096)), &open);
        assert_eq!(found[0].0, range(HEAP, 2 * ARENA), "{found:?}");
    }

    #[test]
    fn without_the_magic_or_with_a_span_elsewhere_there_is_none() {
        assert!(recognise(b"\xff No buildinf:\x08\x02", HEAP + HEAP_PAGE).is_empty());
        assert!(recognise(b"\xff Go buildinf:\x08\x02", HEAP + 2 * ARENA).is_empty());
    }
}

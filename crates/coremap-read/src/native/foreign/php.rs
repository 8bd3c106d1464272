//! PHP: chunks and huge blocks of the Zend memory manager.
//!
//! A `zend_mm_chunk`, aligned to 2 MiB, begins with heap, next and prev. Chunks are a ring, and the heap is in the
//! first of them. Blocks above 2 MiB have their own mappings and are in a list of the heap: {address, size, next}.
//! Source: Zend/zend_alloc.c of PHP 7.0 to 8.3; measured on 8.2.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::{Kind, Owner};
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::units::count;

/// ZEND_MM_CHUNK_SIZE, to which huge blocks are aligned too.
const CHUNK: u64 = 2 << 20;

/// Maximum offset of the heap in its chunk: after the chunk's own fields.
const MAX_HEAP_OFFSET: u64 = 4096;

/// Words of `zend_mm_heap` in which the list of huge blocks is searched: 50 so far.
const HEAP_WORDS: usize = 64;

const NAMES: &[&str] = &["php", "libphp", "mod_php", "frankenphp"];

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let image = scene.named(NAMES);
    if image.is_none() && !scene.starts(CHUNK).into_iter().any(|at| chunk(scene, at).is_some()) {
        return;
    }
    let mut heaps: BTreeMap<Addr, BTreeSet<Addr>> = BTreeMap::new();
    let mut others: Vec<(Addr, Addr)> = Vec::new();
    scene.each_aligned(CHUNK, |at| {
        match chunk(scene, at) {
            Some(heap) => {
                heaps.entry(heap).or_default().insert(at);
            }
            None => others.extend(scene.memory.ptr(at).ok().map(|heap| (heap, at))),
        }
        true
    });
    let owner = image.map_or(Owner::None, |i| i.owner);
    for (heap, mut chunks) in heaps {
        // A heap is in a chunk of its own ring.
        if !chunks.contains(&heap.align_down(CHUNK)) {
            continue;
        }
        let evidence =
            format!("a ring of {}, all with heap {heap}, which is in one of them", count(chunks.len() as u64, "chunk"));
        let huge = huge_blocks(scene, heap, &chunks);
        // Cached chunks are in no ring, but point to their heap.
        chunks.extend(others.iter().filter(|(h, _)| *h == heap).map(|(_, at)| *at));
        let ranges = chunks.into_iter().map(|at| AddrRange::sized(at, CHUNK)).collect();
        found.add(ranges, &Label::derived(Kind::RuntimeHeap, owner, "PHP: zend_mm chunks", evidence));
        let evidence = format!("list of huge blocks of heap {heap}");
        found.add(huge, &Label::derived(Kind::RuntimeHeap, owner, "PHP: zend_mm huge blocks", evidence));
    }
}

/// Returns the heap of the chunk at `at`, if its neighbours in the ring point back.
fn chunk(scene: &Scene<'_>, at: Addr) -> Option<Addr> {
    scene.unclaimed_at(at)?;
    let [heap, next, prev] = scene.words(at)?;
    let [heap, next, prev] = [heap, next, prev].map(Addr::new);
    let placed = heap.since(heap.align_down(CHUNK));
    let sound = (1..MAX_HEAP_OFFSET).contains(&placed) && heap.is_aligned(8);
    let ring = [next, prev].iter().all(|a| !a.is_null() && a.is_aligned(CHUNK));
    if !sound || !ring {
        return None;
    }
    let [its_heap, _, back] = scene.words(next)?;
    let [_, on] = scene.words(prev)?;
    (Addr::new(its_heap) == heap && Addr::new(back) == at && Addr::new(on) == at).then_some(heap)
}

/// Returns the huge blocks, which have their own mappings. Their list nodes {address, size, next} are small blocks of
/// the heap.
fn huge_blocks(scene: &Scene<'_>, heap: Addr, chunks: &BTreeSet<Addr>) -> Vec<AddrRange> {
    let in_chunk = |at: Addr| chunks.contains(&at.align_down(CHUNK)) && at.is_aligned(8);
    let block = |at: Addr| {
        let [start, size, next] = scene.words(at).filter(|_| in_chunk(at))?;
        let (start, next) = (Addr::new(start), Addr::new(next));
        let sound =
            start.is_aligned(CHUNK) && size.is_multiple_of(4096) && size > 0 && (next.is_null() || in_chunk(next));
        (sound && scene.unclaimed_at(start).is_some()).then(|| (AddrRange::sized(start, size), next))
    };
    let words: [u64; HEAP_WORDS] = scene.words(heap).unwrap_or([0; HEAP_WORDS]);
    let Some(first) = words.into_iter().map(Addr::new).find(|at| block(*at).is_some()) else { return Vec::new() };
    let mut out = Vec::new();
    let walks = Walks::new(Phase::Foreign, limits::MAX_FOREIGN_RANGES);
    let end = walks.begin().follow(first, |at| {
        let (range, next) = block(at).ok_or("no huge block")?;
        scene.keep(at, 3);
        out.push(range);
        Ok::<_, &str>(next)
    });
    if let Err(e) = end {
        tracing::debug!("huge blocks of zend_mm: {e}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const A: u64 = 0x4000_0000;
    const B: u64 = A + CHUNK;
    const HUGE: u64 = 0x5000_0000;

    fn recognise(back: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(A, 0x2000).put(A, &[A + 64, B, B]).put(A + 64 + 80, &[A + 0x1000]);
        lab.put(A + 0x1000, &[HUGE, 0x30_0000, 0]);
        lab.map(B, 0x1000).put(B, &[A + 64, A, back]);
        lab.map(HUGE, 0x1000);
        lab.recognise(find, ("php8.2", range(1, 0)), &[range(A, 2 * CHUNK), range(HUGE, 0x30_0000)])
    }

    #[test]
    fn a_ring_of_chunks_and_its_huge_blocks() {
        let found = recognise(A);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, range(A, 2 * CHUNK));
        assert_eq!(found[1].0, range(HUGE, 0x30_0000));
    }

    #[test]
    fn a_ring_that_does_not_close_is_none() {
        assert!(recognise(B).is_empty());
    }
}

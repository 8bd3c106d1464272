//! Malloc blocks: headers and lists are preserved, and nothing of the program's contents.

use std::sync::Mutex;

use crate::addr::{AddrRange, WORD};
use crate::memory::Memory;
use crate::native::malloc::{Chunk, Slot, State};
use crate::session::Session;
use crate::targets::byte_set::ByteSet;
use crate::targets::reads::ReadBytes;

/// Low bits of a chunk's size, which are flags (`SIZE_BITS`).
const FLAGS: u64 = 7;

/// Maximum size in bytes of a fencepost chunk at a heap's end: the size of two.
const FENCES: u64 = 4 * WORD;

/// Bytes of a free chunk that belong to malloc: sizes, and up to four links (`struct malloc_chunk`).
const FREE_WORDS: u64 = 6 * WORD;

/// Returns the bytes that belong to malloc. `read` has the bytes that were read as structures.
pub(super) fn all(session: &Session<'_>, read: &ReadBytes) -> ByteSet {
    let mut out = ByteSet::default();
    let malloc = session.malloc();
    if !malloc.musl.is_empty() {
        // musl's structures describe themselves.
        let visit = |own: &mut Vec<AddrRange>, slot: &Slot| own.extend(slot.own());
        let own = malloc.musl.walk_many(session.process, Vec::new, visit);
        own.into_iter().flatten().for_each(|own| out.add(own.start, own.len()));
    }
    if malloc.arenas.is_empty() && malloc.mapped.is_empty() {
        return out;
    }
    let (lists, _) = session.blocks();
    // Structures outside the chunks: arenas and heap headers.
    for part in malloc.arenas.iter().flat_map(|arena| &arena.parts) {
        let (all, chunks) = (part.committed, part.chunks);
        out.add_of(&read.blocks, all.start, chunks.start.since(all.start));
        out.add_of(&read.blocks, chunks.end, all.end.since(chunks.end));
        // Two chunks below the minimum size, where a heap once ended (`sysmalloc`). Their size fields belong to
        // malloc.
        for head in [4 * WORD - WORD, 2 * WORD - WORD].map(|back| chunks.end.saturating_sub(back)) {
            let size = session.process.memory.peek_u64(head).unwrap_or(0);
            if (1..=FENCES | FLAGS).contains(&size) {
                out.add(head, WORD);
            }
        }
    }
    for cache in &lists.tcaches {
        // The cache is as long as its chunk, whichever layout it has.
        let head = session.process.memory.u64(cache.address.saturating_sub(WORD)).unwrap_or(0);
        let len = (head & !FLAGS).saturating_sub(2 * WORD).min(malloc.longest_cache());
        out.add_of(&read.blocks, cache.address, len);
    }
    let labels = session.block_labels();
    let shared = Mutex::new(out);
    malloc.walk(
        session.process,
        lists,
        |_| (),
        |(), chunk: &Chunk| {
            let usable = AddrRange::sized(chunk.address.saturating_add(2 * WORD), malloc.usable(chunk.size));
            let marks = labels.filter(|_| !chunk.state.is_free()).map(|labels| labels.marks(usable));
            let Ok(mut out) = shared.lock() else { return };
            out.add(chunk.address.saturating_add(WORD), WORD);
            marks.into_iter().flatten().for_each(|mark| out.add(mark.start, mark.len()));
            if chunk.state.is_free() {
                let len = FREE_WORDS.min(chunk.size);
                out.add_of(&read.blocks, chunk.address.saturating_add(WORD), len - WORD.min(len));
                if !matches!(chunk.state, State::Tcache | State::Fastbin | State::Top) {
                    // The chunk's size is repeated before the next chunk's size.
                    out.add(chunk.address.saturating_add(chunk.size), WORD);
                }
            }
        },
    );
    let mut out = shared.into_inner().unwrap_or_default();
    for chunk in &malloc.mapped {
        for at in [chunk.range.start, chunk.chunk] {
            out.add(at, 2 * WORD);
        }
        let usable = AddrRange::sized(chunk.chunk.saturating_add(2 * WORD), malloc.usable_of_mapped(chunk));
        let marks = labels.map(|labels| labels.marks(usable));
        marks.into_iter().flatten().for_each(|mark| out.add(mark.start, mark.len()));
    }
    out
}

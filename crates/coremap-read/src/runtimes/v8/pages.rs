//! Pages of V8's heaps: 256 KiB each, aligned to their size. A large object has a longer page of its own.
//!
//! A page's metadata states its area, its heap and its space. Sources: memory-chunk.h, memory-chunk-metadata.h.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::v8::forms::PageForm;

/// Page size in bytes (kPageSizeBits is 18).
pub(super) const PAGE: u64 = 256 << 10;

/// Maximum offset of a page's area. The header precedes it, and in code pages a guard.
const MAX_HEAD: u64 = 64 << 10;

/// Number of words of a page's metadata that are read.
const WORDS: usize = 12;

/// Offsets in a space (BaseSpace) of its heap and of its number.
mod space {
    pub(super) const HEAP: u64 = 8;
    pub(super) const ID: u64 = 16;
}

/// Flags of pages of the new space, equal in all versions.
mod flag {
    pub(super) const FROM: u64 = 8;
    pub(super) const TO: u64 = 16;
}

/// A page of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Address range of the page.
    pub range: AddrRange,
    /// Address range of its objects.
    pub area: AddrRange,
    /// Address of the heap. 0 for read-only pages, which all heaps share.
    pub heap: Addr,
    /// Address of the space.
    pub owner: Addr,
    /// Number of the space. 0 is the read-only space.
    pub space: u8,
    /// Address of its metadata.
    pub metadata: Addr,
    pub flags: u64,
}

impl Page {
    /// Whether it is in the half of the new space that is not in use.
    pub(super) fn is_from(&self) -> bool {
        self.flags & (flag::FROM | flag::TO) == flag::FROM
    }

    /// Whether it is in the half of the new space that is in use.
    pub(super) fn is_to(&self) -> bool {
        self.flags & flag::TO != 0
    }
}

fn words<const N: usize>(memory: &dyn Memory, at: Addr) -> Option<[u64; N]> {
    let bytes = memory.look(at, 8 * N).ok()?;
    let mut out = [0; N];
    for (word, bytes) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Some(out)
}

/// Returns the page at `at`. `None` if there is none of this form.
fn page(memory: &dyn Memory, form: &PageForm, spaces: usize, at: Addr) -> Option<Page> {
    let head: [u64; 2] = words(memory, at)?;
    let metadata = match form.metadata {
        None => at,
        Some(word) => {
            let to = Addr::new(*head.get(usize::try_from(word).ok()?)?);
            (to.is_aligned(8) && !to.is_null()).then_some(to)?
        }
    };
    let body: [u64; WORDS] = words(memory, metadata)?;
    let word = |i: usize| body.get(i).copied();
    let (size, heap) = (word(form.size)?, Addr::new(word(form.heap)?));
    let range = AddrRange::new(at, at.checked_add(size)?);
    let area = AddrRange::new(Addr::new(word(form.start)?), Addr::new(word(form.end)?));
    let head_bytes = area.start.checked_since(at).filter(|bytes| (1..MAX_HEAD).contains(bytes))?;
    let is_area = area.start < area.end && area.end <= range.end && area.start.is_aligned(8);
    if size == 0 || !size.is_multiple_of(4096) || head_bytes >= size || !is_area {
        return None;
    }
    let flags = head.get(form.flags).copied()?;
    let owner = Addr::new(word(form.owner)?);
    let space = if heap.is_null() {
        // Nothing leads back to a read-only page, so check that its first word is a map.
        let map = memory.peek_u64(area.start).ok().filter(|map| map & 3 == 1)?;
        memory.peek_u64(Addr::new(map - 1)).ok().filter(|map| map & 3 == 1)?;
        0
    } else {
        let leads_back = memory.peek_u64(owner.checked_add(space::HEAP)?).ok()? == heap.get();
        let id = memory.peek_u32(owner.checked_add(space::ID)?).ok().filter(|_| leads_back)?;
        u8::try_from(id).ok().filter(|id| usize::from(*id) < spaces)?
    };
    Some(Page { range, area, heap, owner, space, metadata, flags })
}

/// Finds all pages of this form, sorted by address. They don't overlap.
pub(super) fn find(process: &Process, form: &PageForm, spaces: usize) -> Vec<Page> {
    let mut out: Vec<Page> = Vec::new();
    let mut end = Addr::NULL;
    for piece in process.space().pieces.iter() {
        let mut at = piece.range.start.align_up(PAGE).max(end.align_up(PAGE));
        while at < piece.range.end && out.len() < limits::MAX_V8_PAGES {
            if at >= end
                && let Some(page) = page(&process.memory, form, spaces, at)
            {
                end = page.range.end;
                out.push(page);
            }
            let Some(next) = at.checked_add(PAGE) else { break };
            at = next;
        }
    }
    out
}

/// Returns the index of the page whose area contains `addr`.
pub(super) fn index_of(pages: &[Page], addr: u64) -> Option<usize> {
    let addr = Addr::new(addr);
    let i = pages.partition_point(|page| page.range.start <= addr).checked_sub(1)?;
    pages.get(i).filter(|page| page.area.contains(addr)).map(|_| i)
}

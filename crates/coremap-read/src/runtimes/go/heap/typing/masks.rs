//! Bitmaps of pointers: which words of an object the collector follows.
//!
//! Since 1.22 a span of small objects ends in a bitmap, a bit per word of the span; from 1.26 on marks may follow it.
//! Before, the bitmap is in the description of the arena: since 1.20 a bit per word, in 1.19 a byte for four words,
//! whose lower half says which are pointers. Source: runtime/mbitmap.go, mbitmap_allocheaders.go.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::go::heap::bits::{INLINE_MARKS, Liveness, arena_of};
use crate::runtimes::go::heap::spans::Span;
use crate::runtimes::go::heap::typing::MAX_WITHOUT_HEADER;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::Types;

/// Location of the bitmap in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the end of the span.
    Span,
    /// In the arena's description at this offset, a bit per word.
    Bits(u64),
    /// In the arena's description at this offset, a byte per four words.
    Nibbles(u64),
}

/// Bitmaps of spans, each read once.
pub(in crate::runtimes::go) struct Masks<'r, 'p> {
    runtime: &'r Runtime<'p>,
    liveness: Liveness<'r, 'p>,
    place: Place,
    spans: HashMap<Addr, Option<Vec<u8>>>,
    types: HashMap<Addr, Option<u64>>,
}

impl<'r, 'p> Masks<'r, 'p> {
    pub(in crate::runtimes::go) fn new(runtime: &'r Runtime<'p>) -> Masks<'r, 'p> {
        let shape = runtime.shape();
        let place = match (shape.arena.bitmap, shape.nibbles) {
            (None, _) => Place::Span,
            (Some(at), false) => Place::Bits(at),
            (Some(at), true) => Place::Nibbles(at),
        };
        let (spans, types) = Default::default();
        Masks { runtime, liveness: Liveness::new(runtime), place, spans, types }
    }

    /// Returns a mask of the words that are pointers in an object of at most 512 bytes. Bit 0 is the first word. `None`
    /// if the runtime has no bitmap for it.
    pub(in crate::runtimes::go) fn of_object(&mut self, span: &Span, index: u64) -> Option<u64> {
        if span.is_noscan() || span.is_large() || span.elem > MAX_WITHOUT_HEADER {
            return None;
        }
        let words = span.elem / 8;
        let (liveness, place, runtime) = (&self.liveness, self.place, self.runtime);
        let read = || read(runtime, liveness, place, span);
        let bitmap = self.spans.entry(span.range.start).or_insert_with(read).as_ref()?;
        let first = index.checked_mul(words)?;
        let bit = |i: u64| {
            let byte = bitmap.get(usize::try_from((first + i) / 8).ok()?)?;
            Some(u64::from(byte >> ((first + i) % 8) & 1) << i)
        };
        (0..words).try_fold(0, |mask, i| Some(mask | bit(i)?))
    }

    /// Returns a mask of the words that are pointers in a type's value. `None` if it is larger than 64 words, or the
    /// type has no plain mask.
    pub(in crate::runtimes::go) fn of_type(&mut self, types: &Types<'_>, of: Addr) -> Option<u64> {
        let memory = self.runtime.memory();
        *self.types.entry(of).or_insert_with(|| {
            let found = types.get(of)?;
            let words = found.ptrdata / 8;
            if words == 0 {
                return Some(0);
            }
            if words > 64 {
                return None;
            }
            let bytes = memory.look(found.mask?, words.div_ceil(8) as usize).ok()?;
            let mask = bytes.iter().rev().fold(0u64, |mask, byte| mask << 8 | u64::from(*byte));
            Some(if words == 64 { mask } else { mask & ((1 << words) - 1) })
        })
    }
}

/// Reads the bitmap of a span, as a bit per word.
fn read(runtime: &Runtime<'_>, liveness: &Liveness<'_, '_>, place: Place, span: &Span) -> Option<Vec<u8>> {
    let memory: &dyn Memory = runtime.memory();
    let (start, len) = (span.range.start, span.range.len());
    match place {
        Place::Span => {
            let marks = liveness.inline_marks(span).map_or(0, |_| INLINE_MARKS);
            let bytes = len / 64;
            memory.bytes(span.range.end.checked_sub(marks)?.checked_sub(bytes)?, usize::try_from(bytes).ok()?).ok()
        }
        Place::Bits(at) => {
            let offset = start.since(arena_of(start).start) / 64;
            let at = liveness.arena(start)?.checked_add(at)?.checked_add(offset)?;
            memory.bytes(at, usize::try_from(len / 64).ok()?).ok()
        }
        Place::Nibbles(at) => {
            let offset = start.since(arena_of(start).start) / 32;
            let at = liveness.arena(start)?.checked_add(at)?.checked_add(offset)?;
            let bytes = memory.bytes(at, usize::try_from(len / 32).ok()?).ok()?;
            Some(bytes.as_chunks::<2>().0.iter().map(|[low, high]| low & 15 | (high & 15) << 4).collect())
        }
    }
}

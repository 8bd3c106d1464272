//! Dumped memory as aligned words, run by run, for walks over heaps.

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::{Addr, AddrRange, WORD, union};
use crate::memory::Memory;
use crate::targets::{PieceState, Target};

/// Returns the parts of `range` that may be nonzero, in whole words, disjoint and by address. Most of a sparse process
/// is memory that was never written.
pub(crate) fn data_parts(target: &dyn Target, memory: &dyn Memory, range: AddrRange) -> Vec<AddrRange> {
    let extents = target.extents();
    let mut out = Vec::new();
    for piece in target.facts().space.pieces.overlapping(range) {
        let Some(part) = piece.range.intersect(&range) else { continue };
        let PieceState::Dumped(place) = piece.state else {
            out.extend(memory.readable_parts(part, u64::MAX));
            continue;
        };
        let from = place.saturating_add(part.start.since(piece.range.start));
        // Some producers don't align memory in the file, so a word may begin in one extent and end in the next.
        out.extend(extents.within(from..from.saturating_add(part.len())).filter_map(|data| {
            let (start, end) =
                (part.start.saturating_add(data.start - from), part.start.saturating_add(data.end - from));
            AddrRange::new(start.align_down(WORD), end.align_up(WORD)).intersect(&part)
        }));
    }
    union(out)
}

/// A run of dumped memory. It starts at a multiple of 8.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    /// Address of the first word.
    pub(crate) start: u64,
    /// Address after the last word.
    pub(crate) end: u64,
    words: &'a [[u8; 8]],
}

impl<'a> Window<'a> {
    /// Returns the dumped parts of `range`, by address.
    pub(crate) fn all(target: &'a dyn Target, range: AddrRange) -> Vec<Window<'a>> {
        let runs = target.dumped_runs(range);
        runs.iter()
            .filter_map(|run| {
                target.reads().note_run(run.range.start, run.range.len());
                let start = run.range.start.align_up(8);
                let bytes = run.bytes.get(start.since(run.range.start) as usize..)?;
                Window::new(start, bytes)
            })
            .collect()
    }

    /// Returns the dumped parts of `range` that are no holes of the file. All other words are zero
    /// or unknown.
    pub(crate) fn written(target: &'a dyn Target, range: AddrRange) -> Vec<Window<'a>> {
        let mut out = Vec::new();
        for run in target.dumped_runs(range) {
            let start = run.range.start.align_up(8);
            let skip = start.since(run.range.start);
            let words = run.bytes.get(skip as usize..).unwrap_or_default().as_chunks::<8>().0;
            // A word may begin in one extent and end in the next.
            let mut done = 0;
            for extent in target.extents().within(run.offset..run.offset + run.range.len()) {
                let from = ((extent.start - run.offset).saturating_sub(skip) / 8).max(done);
                let to = (extent.end - run.offset).saturating_sub(skip).div_ceil(8).min(words.len() as u64);
                let part = words.get(from as usize..to as usize).unwrap_or_default();
                let ends = start.checked_add(8 * from).zip(start.checked_add(8 * to));
                if let Some((start, end)) = ends.filter(|_| !part.is_empty()) {
                    out.push(Window { start: start.get(), end: end.get(), words: part });
                }
                done = done.max(to);
            }
        }
        out
    }

    /// A window over `bytes`, which start at `start`, a multiple of 8. `None` if there is no whole
    /// word.
    pub(crate) fn new(start: Addr, bytes: &'a [u8]) -> Option<Window<'a>> {
        let words = bytes.as_chunks::<8>().0;
        let end = start.checked_add(8 * words.len() as u64)?.get();
        (!words.is_empty()).then_some(Window { start: start.get(), end, words })
    }

    /// Returns the word at `at`, a multiple of 8 at or above the start.
    #[inline(always)]
    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        let index = (at.wrapping_sub(self.start) >> 3) as usize;
        self.words.get(index).map(|w| LittleEndian::read_u64(w))
    }

    /// Returns the words that are wholly in `range`.
    #[inline]
    pub(crate) fn within(&self, range: AddrRange) -> &'a [[u8; 8]] {
        let start = Addr::new(self.start);
        let from = range.start.since(start).div_ceil(8) as usize;
        let to = (range.end.min(Addr::new(self.end)).since(start) / 8) as usize;
        self.words.get(from..to).unwrap_or_default()
    }
}

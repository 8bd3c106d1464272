//! Memory as words, run by run of what the core holds: for walks over heaps.

use crate::addr::{Addr, AddrRange};
use crate::core::open::Core;

/// A run of dumped memory, from an address that is a multiple of 8 on.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    /// Address of the first word.
    pub(crate) start: u64,
    /// Past the last word.
    pub(crate) end: u64,
    words: &'a [[u8; 8]],
}

impl<'a> Window<'a> {
    /// The dumped parts of `range`, by address.
    pub(crate) fn all(core: &'a Core, range: AddrRange) -> Vec<Window<'a>> {
        let runs = core.dumped_runs(range);
        runs.iter()
            .filter_map(|run| {
                core.reads.note(run.range.start, run.range.len());
                let start = run.range.start.align_up(8);
                let bytes = run.bytes.get(start.since(run.range.start) as usize..)?;
                Window::new(start, bytes)
            })
            .collect()
    }

    fn new(start: Addr, bytes: &'a [u8]) -> Option<Window<'a>> {
        let words = bytes.as_chunks::<8>().0;
        let end = start.checked_add(8 * words.len() as u64)?.get();
        (!words.is_empty()).then_some(Window { start: start.get(), end, words })
    }

    /// The word at `at`, which is a multiple of 8 at or above the start.
    #[inline(always)]
    pub(crate) fn word(&self, at: u64) -> Option<u64> {
        let index = (at.wrapping_sub(self.start) >> 3) as usize;
        self.words.get(index).map(|w| u64::from_le_bytes(*w))
    }
}

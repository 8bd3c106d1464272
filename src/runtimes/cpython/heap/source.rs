//! Words of memory by address: of the parts of the heap at once, of all else as the core has them.

use crate::addr::{Addr, AddrRange};
use crate::memory::{Memory, ProcessMemory};
use crate::process::Process;
use crate::runtimes::api::Space;

/// Words by address.
pub(super) struct Source<'p> {
    pub(super) space: Space<'p>,
    memory: &'p ProcessMemory,
}

/// The word at an offset from the start of `words`.
#[inline(always)]
pub(super) fn word(words: &[[u8; 8]], at: u64) -> Option<u64> {
    words.get((at >> 3) as usize).map(|w| u64::from_le_bytes(*w))
}

impl<'p> Source<'p> {
    pub(super) fn new(process: &'p Process, ranges: impl Iterator<Item = AddrRange>, min_object: u64) -> Source<'p> {
        Source { space: Space::new(process.target(), ranges, min_object), memory: &process.memory }
    }

    /// Words from `at` on, a multiple of 8: `bytes`, or fewer where the core has no more in one piece.
    #[inline(always)]
    pub(super) fn words(&self, at: u64, bytes: u64) -> &[[u8; 8]] {
        let words = match self.space.run(at) {
            Some(run) => run.words(at),
            None => self.elsewhere(at, bytes),
        };
        words.get(..bytes.div_ceil(8) as usize).unwrap_or(words)
    }

    #[inline(never)]
    fn elsewhere(&self, at: u64, bytes: u64) -> &[[u8; 8]] {
        let at = Addr::new(at);
        let have = self.memory.readable(at, bytes).min(bytes) & !7;
        self.memory.borrow_to_look(at, have as usize).unwrap_or_default().as_chunks::<8>().0
    }

    /// The word at `at`.
    #[inline(always)]
    pub(super) fn word(&self, at: u64) -> Option<u64> {
        word(self.words(at, 8), 0)
    }
}

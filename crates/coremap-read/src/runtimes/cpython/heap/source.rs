//! Words of memory by address: of the heap through its [`Space`], of other memory through the core.

use crate::addr::{Addr, AddrRange};
use crate::memory::{Memory, ProcessMemory};
use crate::process::Process;
use crate::runtimes::api::Space;

pub(super) struct Source<'p> {
    pub(super) space: Space<'p>,
    memory: &'p ProcessMemory,
}

/// The word at byte offset `at` of `words`.
#[inline(always)]
pub(super) fn word(words: &[[u8; 8]], at: u64) -> Option<u64> {
    words.get((at >> 3) as usize).map(|w| u64::from_le_bytes(*w))
}

impl<'p> Source<'p> {
    pub(super) fn new(process: &'p Process, ranges: impl Iterator<Item = AddrRange>, min_object: u64) -> Source<'p> {
        Source { space: Space::new(process.target(), ranges, min_object), memory: &process.memory }
    }

    /// Up to `bytes` bytes of words from `at`, a multiple of 8. Fewer if the core's contiguous memory ends before.
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

    #[inline(always)]
    pub(super) fn word(&self, at: u64) -> Option<u64> {
        word(self.words(at, 8), 0)
    }
}

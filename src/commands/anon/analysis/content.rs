//! What fills a block of memory.

use crate::addr::{Addr, AddrRange};
use crate::map::Base;
use crate::memory::scan::{PAGE, is_filled};
use crate::report::BlockContent;
use crate::targets::Target;

/// Most pages of a block that are looked at for text and pointers.
pub(super) const SAMPLES: u64 = 64;

/// From this share on, in percent, content is called text.
const TEXT: u64 = 60;

/// From this share on, in percent, content is called pointers. Tables of
/// structures have one pointer in three or four words.
const POINTERS: u64 = 25;

/// What a block holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::commands) struct Content {
    /// The byte that all those looked at are.
    pub fill: Option<u8>,
    /// Percent of bytes that are text, of pages that are not zero.
    pub text: u64,
    /// Percent of words that are addresses in the base, of the same pages.
    pub pointers: u64,
    /// Whether any byte is in the core.
    pub known: bool,
}

impl Content {
    /// The same in a word.
    pub(in crate::commands) fn look(&self) -> BlockContent {
        match self.fill {
            _ if !self.known => BlockContent::NotInCore,
            Some(0) => BlockContent::Zero,
            Some(_) => BlockContent::Fill,
            None if self.text >= TEXT => BlockContent::Text,
            None if self.pointers >= POINTERS => BlockContent::Pointers,
            None => BlockContent::Data,
        }
    }

    /// What `range` holds: all that the core has of it is read, text and pointers are told by
    /// [`SAMPLES`] pages.
    pub(super) fn of(target: &dyn Target, base: &Base, range: AddrRange) -> Content {
        let runs = target.dumped_runs(range);
        let Some(first) = runs.iter().find_map(|r| r.bytes.first()) else { return Content::default() };
        let step = range.len().div_ceil(PAGE).div_ceil(SAMPLES).max(1);
        // What could not be read may be anything.
        let mut uniform = runs.iter().map(|r| r.range.len()).sum::<u64>() == target.facts().space.dumped_in(range);
        let mut seen = Shares::default();
        for run in &runs {
            for (i, page) in run.bytes.chunks(PAGE as usize).enumerate() {
                let sampled = (i as u64).is_multiple_of(step);
                if !sampled && !uniform {
                    continue;
                }
                uniform = uniform && is_filled(page, *first);
                if sampled {
                    seen.add(page, base);
                }
            }
        }
        seen.content(uniform.then_some(*first))
    }

    /// What `pages` hold; of those that could not be read, nothing.
    pub(super) fn of_pages<'p>(base: &Base, pages: impl Iterator<Item = &'p [u8]>) -> Content {
        let mut seen = Shares::default();
        let mut fill = None;
        let mut uniform = true;
        for page in pages {
            let Some(&byte) = page.first() else { continue };
            let first = *fill.get_or_insert(byte);
            uniform = uniform && is_filled(page, first);
            seen.add(page, base);
        }
        if fill.is_none() { Content::default() } else { seen.content(fill.filter(|_| uniform)) }
    }
}

#[derive(Default)]
struct Shares {
    bytes: u64,
    text: u64,
    pointers: u64,
}

impl Shares {
    fn content(&self, fill: Option<u8>) -> Content {
        let percent = |n: u64, of: u64| n.saturating_mul(100).checked_div(of).unwrap_or(0);
        Content {
            fill,
            text: percent(self.text, self.bytes),
            pointers: percent(self.pointers, self.bytes / 8),
            known: true,
        }
    }

    fn add(&mut self, page: &[u8], base: &Base) {
        if is_filled(page, 0) {
            return;
        }
        self.bytes += page.len() as u64;
        self.text += page.iter().filter(|b| matches!(b, b' '..=b'~' | b'\n' | b'\r' | b'\t')).count() as u64;
        // The zeros between the letters of UTF-16 are text too.
        let wide = |pair: &&[u8; 2]| matches!(pair, [b' '..=b'~', 0]);
        self.text += page.as_chunks::<2>().0.iter().filter(wide).count() as u64;
        let hull = base.entries.first().zip(base.entries.last());
        let (low, high) =
            hull.map_or((0, 0), |(first, last)| (first.range.start.get().max(PAGE), last.range.end.get()));
        let words = page.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).filter(|w| (low..high).contains(w));
        self.pointers += words.filter(|&w| base.at(Addr::new(w)).is_some()).count() as u64;
    }
}

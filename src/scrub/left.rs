//! Text left in a scrubbed core. Only names should be left.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::scrub::Kept;
use crate::scrub::letters::is_printable;

/// Minimum number of characters of a text.
const MIN_TEXT: usize = 6;

/// Maximum number of bytes of a text that are shown and compared. Names are shorter.
const MAX_TEXT: usize = 1 << 10;

/// Maximum number of distinct texts.
const MAX_TEXTS: usize = 4 << 20;

/// Encoding of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Encoding {
    /// One byte each, ASCII.
    #[serde(rename = "utf-8")]
    Utf8,
    /// Two bytes each.
    #[serde(rename = "utf-16")]
    Utf16,
}

/// Occurrences of a remaining text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrences {
    /// Lowest address.
    pub first: Addr,
    /// Number of occurrences.
    pub count: u64,
}

/// Amount of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Number of texts.
    pub runs: u64,
    /// Number of bytes in them.
    pub bytes: u64,
}

/// Remaining texts: at least six printable ASCII characters in a row, in bytes that were preserved. Replacement bytes
/// reveal nothing.
#[derive(Clone, Debug, Default)]
pub struct LeftTexts {
    /// Amount of text, by kind of region and reason.
    pub runs: BTreeMap<(Kind, Kept), Runs>,
    /// Occurrences by text, if requested.
    pub texts: Option<BTreeMap<(String, Encoding), Occurrences>>,
    /// Number of occurrences of texts beyond the limit.
    pub more: u64,
}

/// A run of memory after overwriting.
pub(super) struct Overwritten<'a> {
    /// Start address, a multiple of 8.
    pub(super) start: Addr,
    /// Bytes after overwriting.
    pub(super) bytes: &'a [u8],
    /// Mask of the preserved bytes: one byte per word, the lowest bit for the first byte.
    pub(super) kept: &'a [u8],
    /// Reason for each word.
    pub(super) why: &'a [Kept],
}

impl LeftTexts {
    /// Creates an empty collection that lists each text.
    pub fn listing() -> LeftTexts {
        LeftTexts { texts: Some(BTreeMap::new()), ..LeftTexts::default() }
    }

    /// Creates an empty collection that lists texts if this one does.
    pub fn empty(&self) -> LeftTexts {
        LeftTexts { texts: self.texts.as_ref().map(|_| BTreeMap::new()), ..LeftTexts::default() }
    }

    /// Collects the texts in a run. `kind` returns the kind of the region at an address.
    pub(super) fn collect(&mut self, run: &Overwritten<'_>, kind: impl Fn(Addr) -> Kind) {
        let Overwritten { start, bytes, kept, .. } = *run;
        let stayed = |i: usize| kept.get(i / 8).is_some_and(|bits| bits >> (i % 8) & 1 != 0);
        let letter = |i: usize| bytes.get(i).copied().filter(|b| is_printable(*b) && stayed(i));
        let mut i = 0;
        while i < bytes.len() {
            // Most words have no preserved byte.
            if i % 8 == 0 && kept.get(i / 8) == Some(&0) {
                i += 8;
                continue;
            }
            if letter(i).is_none() {
                i += 1;
                continue;
            }
            let narrow = (i..).map_while(letter).count();
            let zero = |i: &usize| bytes.get(*i) == Some(&0);
            let is_wide = |at: &usize| letter(*at).is_some() && zero(&(at + 1));
            let wide = if narrow < MIN_TEXT { (i..).step_by(2).take_while(is_wide).count() } else { 0 };
            let (letters, width, encoding) =
                if wide >= MIN_TEXT { (wide, 2, Encoding::Utf16) } else { (narrow, 1, Encoding::Utf8) };
            if letters >= MIN_TEXT {
                let at = start.saturating_add(i as u64);
                let why = run.why.get(i / 8).copied().unwrap_or(Kept::Found);
                let runs = self.runs.entry((kind(at), why)).or_default();
                runs.runs += 1;
                runs.bytes += (letters * width) as u64;
                self.add((i..).step_by(width).take(letters).filter_map(letter), encoding, at);
            }
            i += (letters * width).max(1);
        }
    }

    fn add(&mut self, letters: impl Iterator<Item = u8>, encoding: Encoding, at: Addr) {
        let Some(texts) = &mut self.texts else { return };
        let text: String = letters.take(MAX_TEXT).map(char::from).collect();
        let full = texts.len() >= MAX_TEXTS;
        match texts.get_mut(&(text.clone(), encoding)) {
            Some(places) => places.count += 1,
            None if full => self.more += 1,
            None => drop(texts.insert((text, encoding), Occurrences { first: at, count: 1 })),
        }
    }

    /// Appends the texts of memory that follows this one's.
    pub fn append(&mut self, other: LeftTexts) {
        self.more += other.more;
        for (of, more) in other.runs {
            let runs = self.runs.entry(of).or_default();
            runs.runs += more.runs;
            runs.bytes += more.bytes;
        }
        let Some(texts) = &mut self.texts else { return };
        for (text, places) in other.texts.unwrap_or_default() {
            let full = texts.len() >= MAX_TEXTS;
            match texts.get_mut(&text) {
                Some(here) => {
                    here.first = here.first.min(places.first);
                    here.count += places.count;
                }
                None if full => self.more += places.count,
                None => drop(texts.insert(text, places)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(left: &mut LeftTexts, start: u64, bytes: &[u8], kept: &[u8]) {
        let why = vec![Kept::Found; kept.len()];
        left.collect(&Overwritten { start: Addr::new(start), bytes, kept, why: &why }, |_| Kind::Image);
    }

    #[test]
    fn only_what_stayed_is_a_text() {
        let mut bytes = b"Acme.Invoice\0\0\0\0hunter22".to_vec();
        bytes.extend("Module".encode_utf16().flat_map(u16::to_le_bytes));
        bytes.resize(40, 0);
        let mut left = LeftTexts::listing();
        look(&mut left, 0x1000, &bytes, &[0xff, 0xff, 0, 0xff, 0xff]);
        let mut behind = left.empty();
        look(&mut behind, 0x2000, b"Acme.Invoice\0\0\0\0", &[0xff, 0xff]);
        left.append(behind);
        let texts = left.texts.unwrap_or_default();
        let found: Vec<_> =
            texts.iter().map(|((text, encoding), p)| (text.as_str(), *encoding, p.first.get(), p.count)).collect();
        assert_eq!(found, [("Acme.Invoice", Encoding::Utf8, 0x1000, 2), ("Module", Encoding::Utf16, 0x1018, 1)]);
        assert_eq!(
            left.runs.into_iter().collect::<Vec<_>>(),
            [((Kind::Image, Kept::Found), Runs { runs: 3, bytes: 36 })]
        );
    }
}

//! Texts that are left in a core that was scrubbed: names, if all is well.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;

/// Characters that make a text.
const LEAST: usize = 6;

/// Bytes of a text that are shown and compared: names are shorter.
const MOST: usize = 1 << 10;

/// How many different texts are told apart.
const TEXTS: usize = 4 << 20;

/// How characters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Encoding {
    /// One byte each, of ASCII.
    #[serde(rename = "utf-8")]
    Utf8,
    /// Two bytes each.
    #[serde(rename = "utf-16")]
    Utf16,
}

/// A text that is left in some places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The first of them.
    pub first: Addr,
    /// How many there are.
    pub count: u64,
}

/// At least six printable characters of ASCII in a row, in bytes that stayed: what was made of other bytes tells nothing.
#[derive(Clone, Debug, Default)]
pub struct LeftTexts {
    /// By text.
    pub texts: BTreeMap<(String, Encoding), Places>,
    /// Places of texts that came when there were too many.
    pub more: u64,
}

impl LeftTexts {
    /// Look through what became of a run of memory. `kept`: for each word which bytes stayed, the lowest bit the first.
    pub(super) fn look(&mut self, start: Addr, bytes: &[u8], kept: &[u8]) {
        let stayed = |i: usize| kept.get(i / 8).is_some_and(|bits| bits >> (i % 8) & 1 != 0);
        let letter = |i: usize| bytes.get(i).copied().filter(|b| matches!(b, b' '..=b'~') && stayed(i));
        let mut i = 0;
        while i < bytes.len() {
            // Most words hold nothing that stayed.
            if i % 8 == 0 && kept.get(i / 8) == Some(&0) {
                i += 8;
                continue;
            }
            let narrow = (i..).map_while(letter).count();
            if narrow >= LEAST {
                self.add((i..i + narrow).filter_map(letter), Encoding::Utf8, start.saturating_add(i as u64));
                i += narrow;
                continue;
            }
            let zero = |i: &usize| bytes.get(*i) == Some(&0);
            let wide = (i..).step_by(2).take_while(|at| letter(*at).is_some() && zero(&(at + 1))).count();
            if wide >= LEAST {
                let letters = (i..).step_by(2).take(wide).filter_map(letter);
                self.add(letters, Encoding::Utf16, start.saturating_add(i as u64));
                i += 2 * wide;
                continue;
            }
            i += narrow.max(1);
        }
    }

    fn add(&mut self, letters: impl Iterator<Item = u8>, encoding: Encoding, at: Addr) {
        let text: String = letters.take(MOST).map(char::from).collect();
        let full = self.texts.len() >= TEXTS;
        match self.texts.get_mut(&(text.clone(), encoding)) {
            Some(places) => places.count += 1,
            None if full => self.more += 1,
            None => drop(self.texts.insert((text, encoding), Places { first: at, count: 1 })),
        }
    }

    /// Add those of a part that lies behind this one.
    pub fn append(&mut self, other: LeftTexts) {
        self.more += other.more;
        for (text, places) in other.texts {
            let full = self.texts.len() >= TEXTS;
            match self.texts.get_mut(&text) {
                Some(here) => {
                    here.first = here.first.min(places.first);
                    here.count += places.count;
                }
                None if full => self.more += places.count,
                None => drop(self.texts.insert(text, places)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stayed_is_a_text() {
        let mut bytes = b"Acme.Invoice\0\0\0\0hunter22".to_vec();
        bytes.extend("Module".encode_utf16().flat_map(u16::to_le_bytes));
        bytes.resize(40, 0);
        let mut left = LeftTexts::default();
        left.look(Addr::new(0x1000), &bytes, &[0xff, 0xff, 0, 0xff, 0xff]);
        left.look(Addr::new(0x2000), b"Acme.Invoice\0\0\0\0", &[0xff, 0xff]);
        let found: Vec<_> =
            left.texts.iter().map(|((text, encoding), p)| (text.as_str(), *encoding, p.first.get(), p.count)).collect();
        assert_eq!(found, [("Acme.Invoice", Encoding::Utf8, 0x1000, 2), ("Module", Encoding::Utf16, 0x1018, 1)]);
    }
}

//! A set of bytes of an address space, with one bit for each.

use std::collections::HashMap;

use crate::addr::{Addr, PAGE};

/// Number of 8-byte words in a page.
#[doc(hidden)]
pub const WORDS: usize = (PAGE / 8) as usize;

/// Number of words per element of [`Bits::Words`].
const EACH: usize = 64;

/// The members of a set in one page.
#[derive(Clone, Debug)]
enum Bits {
    /// Whole words only, as for most structures: one bit per word.
    Words([u64; WORDS / EACH]),
    /// One byte per word. Its lowest bit is the word's first byte.
    Bytes(Box<[u8; WORDS]>),
}

impl Bits {
    const NONE: Bits = Bits::Words([0; WORDS / EACH]);

    /// The member bytes of a word, as a bit mask.
    fn word(&self, i: usize) -> u8 {
        match self {
            Bits::Words(words) => {
                let is_in = words.get(i / EACH).is_some_and(|bits| bits >> (i % EACH) & 1 != 0);
                if is_in { u8::MAX } else { 0 }
            }
            Bits::Bytes(bytes) => bytes.get(i).copied().unwrap_or(0),
        }
    }

    /// Adds bytes of a word.
    fn add(&mut self, i: usize, bits: u8) {
        if let Bits::Words(words) = self {
            match bits {
                0 => return,
                u8::MAX => return words.get_mut(i / EACH).into_iter().for_each(|word| *word |= 1 << (i % EACH)),
                _ if self.word(i) == u8::MAX => return,
                _ => {
                    let mut bytes = Box::new([0; WORDS]);
                    self.join(&mut bytes);
                    *self = Bits::Bytes(bytes);
                }
            }
        }
        if let Bits::Bytes(bytes) = self
            && let Some(word) = bytes.get_mut(i)
        {
            *word |= bits;
        }
    }

    /// Adds all members to `to`.
    fn join(&self, to: &mut [u8; WORDS]) {
        match self {
            Bits::Words(words) => {
                for (to, bits) in to.chunks_mut(EACH).zip(words).filter(|(_, bits)| **bits != 0) {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to |= ((bits >> i & 1) as u8).wrapping_neg();
                    }
                }
            }
            Bits::Bytes(bytes) => to.iter_mut().zip(bytes.iter()).for_each(|(to, own)| *to |= own),
        }
    }
}

/// A set of bytes, by address.
#[derive(Clone, Debug, Default)]
pub struct ByteSet {
    pages: HashMap<u64, Bits>,
}

impl ByteSet {
    /// Adds `len` bytes from `addr` on.
    pub fn add(&mut self, addr: Addr, len: u64) {
        for (page, from, to) in pages(addr, len) {
            let bits = self.pages.entry(page).or_insert(Bits::NONE);
            (from / 8..to.div_ceil(8)).for_each(|word| bits.add(word, within(word, from, to)));
        }
    }

    /// Adds the bytes of `other` that are among the `len` bytes from `addr` on.
    pub fn add_of(&mut self, other: &ByteSet, addr: Addr, len: u64) {
        for (page, from, to) in pages(addr, len) {
            if let Some(theirs) = other.pages.get(&page) {
                let bits = self.pages.entry(page).or_insert(Bits::NONE);
                (from / 8..to.div_ceil(8)).for_each(|word| bits.add(word, theirs.word(word) & within(word, from, to)));
            }
        }
    }

    /// Bit mask of the member bytes of the word at `addr`, a multiple of 8. The lowest bit is the first byte.
    pub fn word(&self, addr: Addr) -> u8 {
        let at = addr.since(Addr::NULL);
        let bits = self.pages.get(&(at / PAGE));
        bits.map_or(0, |bits| bits.word((at % PAGE / 8) as usize))
    }

    /// Adds the members of the page at `page` to `bits`, with one byte per word. Returns whether there are any.
    #[doc(hidden)]
    pub fn join_page(&self, page: Addr, bits: &mut [u8; WORDS]) -> bool {
        let own = self.pages.get(&(page.since(Addr::NULL) / PAGE));
        own.into_iter().for_each(|own| own.join(bits));
        own.is_some()
    }

    /// Whether no byte of the page that contains `addr` is in the set.
    pub fn lacks_page(&self, addr: Addr) -> bool {
        !self.pages.contains_key(&(addr.since(Addr::NULL) / PAGE))
    }
}

/// Pages with some of `len` bytes from `addr` on: page number, and the first and end offset in the page.
fn pages(addr: Addr, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let (start, end) = (addr.since(Addr::NULL), addr.saturating_add(len).since(Addr::NULL));
    let numbers = if start < end { start / PAGE..end.div_ceil(PAGE) } else { 0..0 };
    numbers.map(move |page| {
        let to = end.min((page + 1).saturating_mul(PAGE));
        (page, (start.max(page * PAGE) - page * PAGE) as usize, (to - page * PAGE) as usize)
    })
}

/// Bit mask of the bytes of word `word` in a page that are between offsets `from` and `to`.
fn within(word: usize, from: usize, to: usize) -> u8 {
    let (start, end) = (from.saturating_sub(word * 8).min(8), to.saturating_sub(word * 8).min(8));
    let below = |n: usize| ((1u16 << n) - 1) as u8;
    below(end) & !below(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_it_as_they_were_added() {
        let mut set = ByteSet::default();
        set.add(Addr::new(0x1ffd), 14);
        let all: Vec<u64> = (0x1fe0..0x2020).filter(|&at| has(&set, at)).collect();
        assert_eq!(all, (0x1ffd..0x200b).collect::<Vec<_>>());
        set.add(Addr::new(0x3000), 0);
        assert!(set.lacks_page(Addr::new(0x3000)) && !set.lacks_page(Addr::new(0x2fff)));
        let mut some = ByteSet::default();
        some.add_of(&set, Addr::new(0x2004), 0x2000);
        let both: Vec<u64> = (0x1fe0..0x3020).filter(|&at| has(&some, at)).collect();
        assert_eq!(both, (0x2004..0x200b).collect::<Vec<_>>());
        set.add(Addr::MAX, 8);
    }

    #[test]
    fn whole_words_are_what_they_were_when_others_join_them() {
        let mut set = ByteSet::default();
        set.add(Addr::new(0x1010), 16);
        assert!(set.pages.values().all(|bits| matches!(bits, Bits::Words(_))));
        let mut page = [0; WORDS];
        assert!(set.join_page(Addr::new(0x1000), &mut page));
        assert!(page[2..4] == [0xff; 2] && page.iter().filter(|bits| **bits != 0).count() == 2);
        set.add(Addr::new(0x1014), 2);
        set.add(Addr::new(0x1ffe), 2);
        let all: Vec<u64> = (0x1000..0x2000).filter(|&at| has(&set, at)).collect();
        assert_eq!(all, (0x1010..0x1020).chain(0x1ffe..0x2000).collect::<Vec<_>>());
    }

    fn has(set: &ByteSet, at: u64) -> bool {
        set.word(Addr::new(at & !7)) >> (at % 8) & 1 != 0
    }
}

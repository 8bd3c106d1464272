//! A set of bytes of an address space, a bit for each.

use std::collections::HashMap;

use crate::addr::Addr;

/// Bytes of a page: bits are kept for so many together.
pub(crate) const PAGE: u64 = 4096;

/// Words of eight bytes in a page.
pub(crate) const WORDS: usize = (PAGE / 8) as usize;

/// Bits of a page: for each of its words one byte, whose lowest bit is the word's first byte.
type Bits = Box<[u8; WORDS]>;

/// A set of bytes, by address.
#[derive(Clone, Debug, Default)]
pub struct ByteSet {
    pages: HashMap<u64, Bits>,
}

impl ByteSet {
    /// Add `len` bytes from `addr` on.
    pub fn add(&mut self, addr: Addr, len: u64) {
        self.each_page(addr, len, |bits, from, to| {
            for (word, bits) in bits.iter_mut().enumerate().take(to.div_ceil(8)).skip(from / 8) {
                *bits |= within(word, from, to);
            }
        });
    }

    /// Add those of `len` bytes from `addr` on that are in `other`.
    pub fn add_of(&mut self, other: &ByteSet, addr: Addr, len: u64) {
        self.each_page_of(other, addr, len, |bits, theirs, from, to| {
            for word in from / 8..to.div_ceil(8) {
                if let (Some(bits), Some(theirs)) = (bits.get_mut(word), theirs.get(word)) {
                    *bits |= theirs & within(word, from, to);
                }
            }
        });
    }

    /// Which bytes of the word at `addr`, a multiple of 8, are in it: the lowest bit is the first.
    pub fn word(&self, addr: Addr) -> u8 {
        let at = addr.since(Addr::NULL);
        let bits = self.pages.get(&(at / PAGE));
        bits.and_then(|bits| bits.get((at % PAGE / 8) as usize)).copied().unwrap_or(0)
    }

    /// Add its bytes of the page at `page` to `bits`, for each word one byte; whether there are any.
    pub(crate) fn join_page(&self, page: Addr, bits: &mut [u8; WORDS]) -> bool {
        let Some(own) = self.pages.get(&(page.since(Addr::NULL) / PAGE)) else { return false };
        bits.iter_mut().zip(own.iter()).for_each(|(to, own)| *to |= own);
        true
    }

    /// Whether nothing of the page that holds `addr` is in it.
    pub fn lacks_page(&self, addr: Addr) -> bool {
        !self.pages.contains_key(&(addr.since(Addr::NULL) / PAGE))
    }

    fn each_page(&mut self, addr: Addr, len: u64, mut visit: impl FnMut(&mut Bits, usize, usize)) {
        let (mut at, end) = (addr.since(Addr::NULL), addr.saturating_add(len).since(Addr::NULL));
        while at < end {
            let page = at / PAGE;
            let to = end.min((page + 1).saturating_mul(PAGE));
            let bits = self.pages.entry(page).or_insert_with(|| Box::new([0; WORDS]));
            visit(bits, (at % PAGE) as usize, (to - page * PAGE) as usize);
            at = to;
        }
    }

    fn each_page_of(
        &mut self,
        other: &ByteSet,
        addr: Addr,
        len: u64,
        mut visit: impl FnMut(&mut Bits, &Bits, usize, usize),
    ) {
        let (mut at, end) = (addr.since(Addr::NULL), addr.saturating_add(len).since(Addr::NULL));
        while at < end {
            let page = at / PAGE;
            let to = end.min((page + 1).saturating_mul(PAGE));
            if let Some(theirs) = other.pages.get(&page) {
                let bits = self.pages.entry(page).or_insert_with(|| Box::new([0; WORDS]));
                visit(bits, theirs, (at % PAGE) as usize, (to - page * PAGE) as usize);
            }
            at = to;
        }
    }
}

/// Bits of the word of that number in its page that lie from byte `from` up to `to`.
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

    fn has(set: &ByteSet, at: u64) -> bool {
        set.word(Addr::new(at & !7)) >> (at % 8) & 1 != 0
    }
}

//! All objects of a heap in a row: a number for each, by address, and back.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::managed::{FREE, Heap, Losses, Tally};
use crate::progress::Progress;

/// Bits of an address within a page of the table. A page has a bit for each word that an object may begin at, so that a MiB of heap
/// takes 17 KiB, however many objects are in it.
const PAGE_BITS: u32 = 20;
const WORDS: usize = 1 << (PAGE_BITS - 3 - 6);

/// Words of bits for which the number of objects before them is kept.
const BLOCK: usize = 8;
const BLOCKS: usize = WORDS / BLOCK;

type Bits = Box<[u64; WORDS]>;

/// The objects of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// How many, and their bytes.
    pub(crate) tally: Tally,
    /// Address and size of the first.
    first: (u64, u64),
}

impl Default for Kind {
    fn default() -> Kind {
        Kind { tally: Tally::default(), first: (u64::MAX, 0) }
    }
}

impl Kind {
    /// Bytes of the first object.
    pub(crate) fn first_size(&self) -> u64 {
        self.first.1
    }

    fn plus(self, other: Kind) -> Kind {
        Kind { tally: self.tally.plus(other.tally), first: self.first.min(other.first) }
    }
}

/// All objects by address, without the space between them.
pub(crate) struct Objects {
    /// Numbers of pages of the address space that have an object, ascending.
    keys: Vec<u64>,
    bits: Vec<Bits>,
    /// How many objects are before each block of words.
    ranks: Vec<u32>,
    /// From a hash of a page's number to its place in `keys`, plus 1.
    table: Vec<u32>,
    /// By number of the type.
    pub(crate) kinds: Vec<Kind>,
    /// All of them.
    pub(crate) total: Tally,
    /// Space between objects, of type [`FREE`].
    pub(crate) free: Tally,
    /// What could not be walked.
    pub(crate) losses: Losses,
}

#[derive(Default)]
struct Share {
    pages: HashMap<u64, Bits>,
    kinds: Vec<Kind>,
    losses: Losses,
}

impl Objects {
    /// Walk `heap`. `None` where it has more objects than numbers of 31 bits.
    pub(crate) fn of(heap: &dyn Heap, progress: &Progress) -> Option<Objects> {
        progress.start(heap.parts().iter().map(|p| p.range.len()).fold(0, u64::saturating_add));
        let shares: Vec<Share> = heap
            .parts()
            .par_iter()
            .fold(Share::default, |mut share, part| {
                let Share { pages, kinds, losses } = &mut share;
                // Objects of a row are in the same page mostly.
                let mut page: (u64, Option<Bits>) = (0, None);
                heap.walker().walk(part, losses, &mut |object| {
                    let at = object.addr.get();
                    let index = object.kind.0 as usize;
                    if index >= kinds.len() {
                        kinds.resize(index + 256, Kind::default());
                    }
                    if let Some(kind) = kinds.get_mut(index) {
                        let one = Tally { count: 1, size: object.size };
                        *kind = kind.plus(Kind { tally: one, first: (at, object.size) });
                    }
                    // Those that begin at no word get no number; no runtime has any.
                    if object.kind == FREE || at & 7 != 0 {
                        return;
                    }
                    let key = at >> PAGE_BITS;
                    if page.0 != key || page.1.is_none() {
                        if let Some(bits) = page.1.take() {
                            pages.insert(page.0, bits);
                        }
                        page = (key, Some(pages.remove(&key).unwrap_or_else(|| Box::new([0; WORDS]))));
                    }
                    let (word, bit) = place(at);
                    if let Some(word) = page.1.as_mut().and_then(|bits| bits.get_mut(word)) {
                        *word |= bit;
                    }
                });
                if let Some(bits) = page.1.take() {
                    pages.insert(page.0, bits);
                }
                progress.add(part.range.len());
                share
            })
            .collect();
        Objects::join(shares)
    }

    fn join(shares: Vec<Share>) -> Option<Objects> {
        let (mut kinds, mut losses) = (Vec::new(), Losses::default());
        let mut pages: Vec<(u64, Bits)> = Vec::new();
        for share in shares {
            if kinds.len() < share.kinds.len() {
                kinds.resize(share.kinds.len(), Kind::default());
            }
            for (sum, kind) in kinds.iter_mut().zip(share.kinds) {
                *sum = sum.plus(kind);
            }
            losses.merge(share.losses);
            pages.extend(share.pages);
        }
        pages.sort_unstable_by_key(|(key, _)| *key);
        pages.dedup_by(|(key, bits), (kept, into)| {
            let same = key == kept;
            if same {
                into.iter_mut().zip(bits.iter()).for_each(|(into, bits)| *into |= bits);
            }
            same
        });
        let (keys, bits): (Vec<u64>, Vec<Bits>) = pages.into_iter().unzip();
        let mut ranks = Vec::with_capacity(bits.len() * BLOCKS);
        let mut before = 0_u64;
        for block in bits.iter().flat_map(|bits| bits.chunks(BLOCK)) {
            ranks.push(u32::try_from(before).ok().filter(|&n| n < 1 << 31)?);
            before += block.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        if before >= 1 << 31 {
            return None;
        }
        let mut table = vec![0; (2 * keys.len()).next_power_of_two()];
        for (number, &key) in (1..).zip(&keys) {
            let mut at = hash(key) & (table.len() - 1);
            while table.get(at).is_some_and(|&taken| taken != 0) {
                at = (at + 1) & (table.len() - 1);
            }
            if let Some(slot) = table.get_mut(at) {
                *slot = number;
            }
        }
        let free = kinds.get(FREE.0 as usize).map_or(Tally::default(), |kind| kind.tally);
        let rest = kinds.iter().skip(FREE.0 as usize + 1);
        let total = rest.fold(Tally::default(), |sum, kind| sum.plus(kind.tally));
        Some(Objects { keys, bits, ranks, table, kinds, total, free, losses })
    }

    /// How many have a number.
    pub(crate) fn len(&self) -> u32 {
        let last = self.bits.last().and_then(|bits| bits.last_chunk::<BLOCK>());
        let in_last: u32 = last.map_or(0, |block| block.iter().map(|word| word.count_ones()).sum());
        self.ranks.last().copied().unwrap_or(0) + in_last
    }

    /// Number of the object that begins at `addr`.
    #[inline]
    pub(crate) fn number(&self, addr: u64) -> Option<u32> {
        if addr & 7 != 0 {
            return None;
        }
        let key = addr >> PAGE_BITS;
        let mut slot = hash(key) & (self.table.len() - 1);
        let page = loop {
            let page = (*self.table.get(slot)? as usize).checked_sub(1)?;
            if self.keys.get(page) == Some(&key) {
                break page;
            }
            slot = (slot + 1) & (self.table.len() - 1);
        };
        let bits = self.bits.get(page)?;
        let (word, bit) = place(addr);
        let within = *bits.get(word)?;
        if within & bit == 0 {
            return None;
        }
        let block = word / BLOCK;
        let before = bits.get(block * BLOCK..word)?.iter().map(|w| w.count_ones()).sum::<u32>();
        Some(self.ranks.get(page * BLOCKS + block)? + before + (within & (bit - 1)).count_ones())
    }

    /// How many pages there are: pieces that can be taken one by one, in the order of numbers.
    pub(crate) fn pages(&self) -> usize {
        self.keys.len()
    }

    /// The first number in a page, and the addresses of all in it.
    pub(crate) fn page(&self, page: usize) -> (u32, impl Iterator<Item = Addr> + '_) {
        let base = self.keys.get(page).copied().unwrap_or(0) << PAGE_BITS;
        let words = self.bits.get(page).map_or(&[][..], |bits| &bits[..]);
        let addrs = (0_u64..).zip(words).flat_map(move |(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then(|| Addr::new(base | i << 9 | u64::from(bit) << 3))
            })
        });
        (self.ranks.get(page * BLOCKS).copied().unwrap_or(0), addrs)
    }

    /// Numbers and addresses of those that begin in `range`.
    pub(crate) fn within(&self, range: AddrRange) -> impl Iterator<Item = (u32, Addr)> + '_ {
        let (first, last) = (key_of(range.start), key_of(range.end));
        let from = self.keys.partition_point(|&key| key < first);
        let to = self.keys.partition_point(|&key| key <= last);
        let numbered = (from..to).flat_map(|page| {
            let (first, addrs) = self.page(page);
            (first..).zip(addrs)
        });
        numbered.filter(move |(_, addr)| range.contains(*addr))
    }
}

/// The key of the page that holds an address.
fn key_of(at: Addr) -> u64 {
    at.since(Addr::NULL) >> PAGE_BITS
}

/// The word of a page, and the bit in it.
#[inline]
fn place(addr: u64) -> (usize, u64) {
    let granule = addr >> 3;
    ((granule >> 6) as usize & (WORDS - 1), 1 << (granule & 63))
}

/// Fibonacci's: neighbours go far apart.
#[inline]
fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(addrs: &[u64]) -> Objects {
        let mut shares = Vec::new();
        // Each object comes from a share of its own, the last first: the order of threads is none.
        for &at in addrs.iter().rev() {
            let mut bits: Bits = Box::new([0; WORDS]);
            let (word, bit) = place(at);
            bits[word] |= bit;
            shares.push(Share { pages: HashMap::from([(at >> PAGE_BITS, bits)]), ..Share::default() });
        }
        Objects::join(shares).unwrap_or_else(|| unreachable!())
    }

    #[test]
    fn numbers_go_by_address_and_back() {
        let addrs = [
            0x10_0000,
            0x10_0018,
            0x1f_fff8,
            0x20_0000,
            0x7f00_0000_1000,
            0xffff_ffff_ffff_ffe0,
            0xffff_ffff_ffff_fff8,
        ];
        let objects = numbered(&addrs);
        assert_eq!((objects.len(), objects.pages()), (7, 4));
        for (number, &at) in (0..).zip(&addrs) {
            assert_eq!(objects.number(at), Some(number), "{at:#x}");
        }
        for none in [0, 8, 0x10_0008, 0x10_0001, 0x30_0000, 0x7f00_0000_0ff8, u64::MAX] {
            assert_eq!(objects.number(none), None, "{none:#x}");
        }
        let mut back = Vec::new();
        for page in 0..objects.pages() {
            let (first, all) = objects.page(page);
            assert_eq!(first as usize, back.len());
            back.extend(all.map(|addr| addr.get()));
        }
        assert_eq!(back, addrs);
        let range = AddrRange::new(Addr::new(0x10_0018), Addr::new(0x7f00_0000_1000));
        assert_eq!(objects.within(range).map(|(number, _)| number).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn there_may_be_none() {
        let objects = numbered(&[]);
        assert_eq!((objects.len(), objects.pages(), objects.number(0x1000)), (0, 0, None));
    }
}

//! Words of blocks that point at blocks.

use std::collections::HashMap;
use std::ops::Range;

/// How a word points at a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// At its start.
    Start,
    /// At an inner offset at which many words point in blocks of the same size.
    Inner,
    /// At another inner offset, or from an offset at which blocks of that size have no pointer. It may be chance.
    Weak,
}

/// Minimum number of words that point at one inner offset of blocks of one size, for them to count as pointers.
const ALIKE: u32 = 32;

/// Usable size in bytes from which every inner address counts. Such a block is a table or a buffer, with few pointers
/// to it.
const LARGE: u32 = 64 << 10;

/// Possible lengths of the header that a wrapper of malloc puts before each block, in bytes. The wrapper uses one if
/// more than twice as many words point behind such a header as at starts.
const HEADERS: [u32; 6] = [8, 16, 24, 32, 48, 64];

/// Conditions to conclude that blocks of one size have no pointer in their last word: minimum number of these blocks,
/// and their maximum usable size in bytes.
const MANY: u32 = 1000;
const SMALL: u32 = 2048;

/// Share of these blocks, in percent, below which pointers in the last word are stale.
const LEFT_OVER: u32 = 1;

/// Maximum number of different inner offsets, and of different sizes, that are counted.
const COUNTED: usize = 1 << 20;

/// Words of a range of blocks.
#[derive(Default)]
pub(super) struct Scan {
    /// End index in `to` of each block's words.
    ends: Vec<u32>,
    /// Block that each word points at.
    to: Vec<u32>,
    /// Index of each word in its block, at most [`Edges::LAST_WORD`].
    at: Vec<u16>,
    /// Distance in bytes from the target's start. `u32::MAX` if it is too large.
    inside: Vec<u32>,
}

impl Scan {
    /// Adds a word of the current block. `inside`: distance in bytes from the start of the block `to`.
    pub(super) fn push(&mut self, word: u64, to: u32, inside: Option<u64>) {
        self.at.push(u16::try_from(word).unwrap_or(Edges::LAST_WORD).min(Edges::LAST_WORD));
        self.to.push(to);
        self.inside.push(inside.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX));
    }

    /// Ends the current block.
    pub(super) fn end(&mut self) {
        self.ends.push(u32::try_from(self.to.len()).unwrap_or(u32::MAX));
    }

    /// Returns the target of each word, and the distance in bytes from the target's start.
    pub(super) fn targets(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.to.iter().copied().zip(self.inside.iter().copied())
    }

    /// Returns the words of each block: index of the word, target, and distance in bytes from the target's start.
    pub(super) fn blocks(&self) -> impl Iterator<Item = impl Iterator<Item = (u16, u32, u32)> + '_> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, end)| {
            let range = from as usize..*end as usize;
            let at = self.at.get(range.clone()).unwrap_or_default().iter().copied();
            let to = self.to.get(range.clone()).unwrap_or_default().iter().copied();
            at.zip(to.zip(self.inside.get(range).unwrap_or_default().iter().copied()))
                .map(|(at, (to, inside))| (at, to, inside))
        })
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.to.len()
    }
}

/// All words of blocks that point at blocks.
#[derive(Default)]
pub(super) struct Edges {
    /// End index in `to` of each block's words.
    ends: Vec<u32>,
    /// Block that each word points at.
    to: Vec<u32>,
    /// Index of each word in its block, and its [`Lead`]. See [`pack`].
    how: Vec<u16>,
    /// Length in bytes of the header that a wrapper of malloc puts before its blocks. 0 if there is none.
    pub(super) header: u32,
    /// Inner offsets at which many words point: number of these words, by usable size of the target and offset in it.
    inner: HashMap<(u32, u32), u32>,
}

/// Bits of a word's index.
const WORD_BITS: u32 = 14;

fn pack(word: u16, lead: Lead) -> u16 {
    word | (lead as u16) << WORD_BITS
}

fn unpack(how: u16) -> (u16, Lead) {
    let lead = match how >> WORD_BITS {
        0 => Lead::Start,
        1 => Lead::Inner,
        _ => Lead::Weak,
    };
    (how & Edges::LAST_WORD, lead)
}

impl Edges {
    /// Maximum index of a word. All words after it have this index.
    pub(super) const LAST_WORD: u16 = (1 << WORD_BITS) - 1;

    /// Joins scans of blocks in order. `lens`: usable bytes of each block. `None` if there are too many words.
    pub(super) fn join(scans: Vec<Scan>, lens: &[u32]) -> Option<Edges> {
        let total: usize = scans.iter().map(|scan| scan.to.len()).sum();
        u32::try_from(total).ok().filter(|total| *total < u32::MAX)?;
        let mut out = Edges { to: Vec::with_capacity(total), how: Vec::with_capacity(total), ..Edges::default() };
        out.learn(&scans, lens);
        out.ends.reserve(lens.len());
        for scan in scans {
            let base = u32::try_from(out.to.len()).ok()?;
            out.ends.extend(scan.ends.iter().map(|end| base.saturating_add(*end)));
            for ((&to, &at), &inside) in scan.to.iter().zip(&scan.at).zip(&scan.inside) {
                let lead = out.lead(to, inside, lens);
                out.to.push(to);
                out.how.push(pack(at, lead));
            }
        }
        out.drop_left_over(lens);
        Some(out)
    }

    /// Finds the inner offsets at which words are pointers.
    fn learn(&mut self, scans: &[Scan], lens: &[u32]) {
        let mut starts = 0_u32;
        let mut headers = [0_u32; HEADERS.len()];
        for scan in scans {
            for (&to, &inside) in scan.to.iter().zip(&scan.inside) {
                if inside == 0 {
                    starts = starts.saturating_add(1);
                    continue;
                }
                for (count, _) in headers.iter_mut().zip(HEADERS).filter(|(_, header)| *header == inside) {
                    *count = count.saturating_add(1);
                }
                let key = (lens.get(to as usize).copied().unwrap_or(0), inside);
                let room = self.inner.len() < COUNTED;
                match self.inner.get_mut(&key) {
                    Some(count) => *count = count.saturating_add(1),
                    None if room => drop(self.inner.insert(key, 1)),
                    None => {}
                }
            }
        }
        self.inner.retain(|_, count| *count >= ALIKE);
        let most = headers.iter().zip(HEADERS).max_by_key(|(count, _)| **count);
        self.header = most.filter(|(count, _)| **count > starts.saturating_mul(2)).map_or(0, |(_, header)| header);
    }

    /// Returns how a word points at the block `to`, at `inside` bytes from its start.
    pub(super) fn lead(&self, to: u32, inside: u32, lens: &[u32]) -> Lead {
        let len = lens.get(to as usize).copied().unwrap_or(0);
        match inside {
            0 => Lead::Start,
            _ if inside == self.header || len >= LARGE || self.inner.contains_key(&(len, inside)) => Lead::Inner,
            _ => Lead::Weak,
        }
    }

    /// Marks stale pointers as weak. malloc rounds sizes up, so the program may never write a block's last word. If
    /// nearly all blocks of a size have no pointer there, the few others are stale.
    fn drop_left_over(&mut self, lens: &[u32]) {
        let last = |len: u32| (len / 8).checked_sub(1).and_then(|word| u16::try_from(word).ok());
        let mut counts: HashMap<u32, (u32, u32)> = HashMap::new();
        let mut weak: Vec<(u32, u32)> = Vec::new();
        let mut from = 0;
        for (&end, &len) in self.ends.iter().zip(lens) {
            let edges = from..end as usize;
            from = end as usize;
            if len > SMALL || counts.len() >= COUNTED {
                continue;
            }
            let count = counts.entry(len).or_default();
            count.0 = count.0.saturating_add(1);
            let is_last = |edge: &usize| {
                let how = self.how.get(*edge).map(|how| unpack(*how));
                how.is_some_and(|(word, lead)| Some(word) == last(len) && lead != Lead::Weak)
            };
            if let Some(edge) = edges.clone().rfind(is_last) {
                count.1 = count.1.saturating_add(1);
                weak.extend(u32::try_from(edge).map(|edge| (len, edge)));
            }
        }
        let is_rare = |len: &u32| {
            counts
                .get(len)
                .is_some_and(|&(all, with)| all >= MANY && with.saturating_mul(100) < all.saturating_mul(LEFT_OVER))
        };
        for (_, edge) in weak.iter().filter(|(len, _)| is_rare(len)) {
            if let Some(how) = self.how.get_mut(*edge as usize) {
                *how = pack(unpack(*how).0, Lead::Weak);
            }
        }
    }

    fn range(&self, block: u32) -> Range<usize> {
        let at = block as usize;
        let from = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |end| *end as usize);
        from..self.ends.get(at).map_or(from, |end| *end as usize)
    }

    /// Returns the blocks that a block's words point at.
    pub(super) fn targets(&self, block: u32) -> &[u32] {
        self.to.get(self.range(block)).unwrap_or_default()
    }

    /// Returns the words of a block that point at blocks: index of the word, target, and kind of pointer.
    pub(super) fn of(&self, block: u32) -> impl Iterator<Item = (u16, u32, Lead)> + '_ {
        let how = self.how.get(self.range(block)).unwrap_or_default();
        self.targets(block).iter().zip(how).map(|(&to, &how)| {
            let (word, lead) = unpack(how);
            (word, to, lead)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(lens: &[u32], edges: &[&[(u64, u32, u64)]]) -> Edges {
        let mut scan = Scan::default();
        for of_block in edges {
            of_block.iter().for_each(|&(at, to, inside)| scan.push(at, to, Some(inside)));
            scan.end();
        }
        Edges::join(vec![scan], lens).unwrap_or_default()
    }

    #[test]
    fn an_inner_address_counts_where_many_lead_there() {
        // Block 0 is a table of 40 pointers to byte 16 of block 1, and has one pointer to byte 8 of block 2.
        let mut table: Vec<(u64, u32, u64)> = (0..40).map(|i| (i, 1, 16)).collect();
        table.push((40, 2, 8));
        table.push((41, 2, 0));
        let edges = joined(&[4096, 40, 40], &[&table, &[], &[]]);
        let leads: Vec<Lead> = edges.of(0).map(|(_, _, lead)| lead).collect();
        assert_eq!((leads[0], leads[40], leads[41]), (Lead::Inner, Lead::Weak, Lead::Start));
        assert_eq!(edges.lead(1, 24, &[4096, 40, 40]), Lead::Weak);
    }

    #[test]
    fn a_rare_pointer_in_the_last_word_is_left_over() {
        // 2,000 blocks of 40 bytes. The last word of one of them has the address of another.
        let lens = vec![40; 2000];
        let one: &[(u64, u32, u64)] = &[(4, 7, 0)];
        let all: Vec<&[(u64, u32, u64)]> = (0..2000).map(|i| if i == 5 { one } else { &[] }).collect();
        let edges = joined(&lens, &all);
        assert_eq!(edges.of(5).collect::<Vec<_>>(), [(4, 7, Lead::Weak)]);
        let few = joined(&lens[..10], &all[..10]);
        assert_eq!(few.of(5).collect::<Vec<_>>(), [(4, 7, Lead::Start)]);
    }
}

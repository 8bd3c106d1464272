//! A quick look at a block of memory: where can any needle of the pattern be?
//!
//! Looking for two needles costs two passes over the cache, which together are
//! slower than memory. Much memory lacks even one byte that every match has
//! (zeros, fills, bitmaps, text in another script), and a search for a single
//! byte keeps up with memory.

use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::search::hex::Masked;

/// Bytes that go to the exact search around each rare byte found. Where the
/// byte isn't rare after all, so many are passed without a look.
pub(super) const CHUNK: usize = 256;

/// How common a byte is in the memory of processes: tables made from text take
/// zero for rare, and UTF-16 is half zeros.
pub(super) fn commonness(byte: u8) -> u8 {
    match byte {
        0 => 255,
        0xff => 254,
        1..=8 | 0x0f | 0x10 | 0x20 | 0x40 | 0x48 | 0x7f | 0x80 | 0x8b => 240,
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 200,
        b'c' | b'd' | b'l' | b'm' | b'p' | b'u' | b'_' | b'.' | b'/' | b'-' | b'0'..=b'9' => 180,
        b'a'..=b'z' | b'A'..=b'Z' | b'$' => 150,
        _ => 100,
    }
}

/// A byte for each needle that all its matches have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    first: u8,
    /// The same as `first` where that one does for both.
    second: u8,
    /// How far before its rare byte a match may start.
    back: usize,
}

impl Gate {
    /// For one or two needles; `None` where one has no byte to go by.
    pub(super) fn of(needles: &[&Masked]) -> Option<Gate> {
        let mut gate: Option<Gate> = None;
        for needle in needles {
            let fixed = (0..needle.value.len()).filter(|&i| needle.mask[i] == 0xff && needle.value[i] != 0);
            let at = fixed.min_by_key(|&i| commonness(needle.value[i]))?;
            let byte = needle.value[at];
            gate = Some(match gate {
                None => Gate { first: byte, second: byte, back: at },
                Some(Gate { first, back, .. }) => Gate { first, second: byte, back: back.max(at) },
            });
        }
        gate
    }

    /// Where in `starts` a match may start, as ranges that are sorted and
    /// disjoint; at least `chunk` bytes are passed for each rare byte found.
    pub(super) fn islands(&self, hay: &[u8], starts: &Range<usize>, chunk: usize, out: &mut Vec<Range<usize>>) {
        // Beyond, a rare byte belongs to no match of this window.
        let hay = &hay[..hay.len().min(starts.end.saturating_add(self.back))];
        let mut at = starts.start;
        while let Some(found) = hay.get(at..).and_then(|rest| self.find(rest)) {
            let rare = at + found;
            at = rare + chunk;
            let island = rare.saturating_sub(self.back).max(starts.start)..at.min(starts.end);
            match out.last_mut() {
                Some(last) if island.start <= last.end => last.end = island.end,
                _ => out.push(island),
            }
        }
    }

    fn find(&self, hay: &[u8]) -> Option<usize> {
        if self.first == self.second { memchr(self.first, hay) } else { memchr2(self.first, self.second, hay) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn islands(needles: &[&[u8]], hay: &[u8], starts: Range<usize>) -> Option<Vec<Range<usize>>> {
        let masked: Vec<Masked> = needles.iter().map(|n| Masked::exact(n.to_vec())).collect();
        let mut out = Vec::new();
        Gate::of(&masked.iter().collect::<Vec<_>>())?.islands(hay, &starts, 4, &mut out);
        Some(out)
    }

    #[test]
    fn every_start_of_a_match_is_in_an_island() {
        let cases: [(&[u8], &[u8]); 5] = [
            (b"centos", b"c\0e\0n\0t\0o\0s\0"),
            (b"x", b"x\0"),
            (b"\xc3\x89", b"\xc9\0"),
            (b"aXb", b"a\0X\0b\0"),
            (b"eeX", b"Xee"),
        ];
        for (narrow, wide) in cases {
            for needle in [narrow, wide] {
                for at in 0..60 {
                    let mut hay = vec![0; 80];
                    hay[at..at + needle.len()].copy_from_slice(needle);
                    let found = islands(&[narrow, wide], &hay, 5..40).unwrap_or_default();
                    let inside = found.iter().any(|r| r.contains(&at));
                    assert_eq!(inside, (5..40).contains(&at), "{needle:?} at {at}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn memory_without_the_rare_byte_is_passed_over() {
        assert_eq!(islands(&[b"aXb", b"a\0X\0b\0"], b"the quick fox, aaabbb\0", 0..22), Some(vec![]));
        assert_eq!(islands(&[b"aXb"], b"....X.......X.X..........", 0..20), Some(vec![3..8, 11..16]));
        assert_eq!(islands(&[b"aXb", b"\0\0"], b"", 0..0), None);
    }
}

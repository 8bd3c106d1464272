//! A prefilter that excludes most of a block from the exact search.
//!
//! Searching a block for two needles takes two passes over the cache, which together are
//! slower than memory. A search for a single byte keeps up with memory if it seldom
//! stops. So the prefilter searches for one byte that every match has and that is rare in
//! this memory. Where the byte occurs, it compares the needles.

use std::ops::Range;

use memchr::{memchr, memchr2};

use crate::memory::scan::is_zero;
use crate::search::hex::Masked;
use crate::search::window::Window;
use crate::sums::SaturatingSum;

/// Bytes given to the exact search around each match, and around a byte that turns out
/// not to be rare. That many bytes need no further prefilter.
pub(super) const CHUNK: usize = 256;

/// Average distance in bytes below which a mark slows the search down, so that another
/// one may be better.
const RARE: usize = 256;

/// Average distance in bytes below which stopping at a mark costs more than the exact
/// search.
const COMMON: usize = 64;

/// Number of consecutive stops at such a distance before the exact search takes over.
const PATIENCE: usize = 4;

/// Maximum number of bytes of a needle compared at a mark. Comparing all of a long needle
/// would cost too much.
const COMPARED: usize = 32;

/// Number and size of the samples of a block that show how common bytes are in it. More
/// would take as long as the whole block.
const SAMPLES: usize = 64;
const SAMPLE: usize = 32;

/// Cost of searching for two bytes at once, as additional occurrences of one byte in the
/// samples.
const SECOND_BYTE: u32 = 2;

/// Frequency rank of a byte in the memory of processes. Tables made from text rate zero
/// as rare, but UTF-16 is half zeros.
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

/// The needles of a pattern, each with its possible marks.
pub(super) struct Prefilter<'a> {
    needles: Vec<(&'a Masked, Vec<Mark>)>,
}

/// A mark: a byte that all matches of a needle have, with its offset in the needle.
#[derive(Clone, Copy)]
struct Mark {
    byte: u8,
    at: usize,
}

/// One mark for each needle, chosen by frequency in a sample of memory.
pub(super) struct MarkSet<'a> {
    marks: Vec<(&'a Masked, Mark)>,
    /// Next best mark of each needle, compared before the rest.
    others: Vec<Mark>,
    first: u8,
    /// Second byte to search for. Equal to `first` if one byte serves all needles.
    second: u8,
    /// Maximum distance in bytes from the start of a match to its mark.
    back: usize,
}

impl<'a> Prefilter<'a> {
    /// Creates a prefilter for one or two needles. `None` if a needle has no usable byte.
    pub(super) fn of(needles: &[&'a Masked]) -> Option<Prefilter<'a>> {
        let marks = |needle: &'a Masked| {
            let (mut seen, mut marks) = ([false; 256], Vec::new());
            for (at, (&byte, &mask)) in needle.value.iter().zip(&needle.mask).enumerate() {
                if mask == 0xff && byte != 0 && !std::mem::replace(&mut seen[usize::from(byte)], true) {
                    marks.push(Mark { byte, at });
                }
            }
            (!marks.is_empty()).then_some((needle, marks))
        };
        let needles: Option<Vec<_>> = needles.iter().map(|n| marks(n)).collect();
        Some(Prefilter { needles: needles.filter(|n| matches!(n.len(), 1 | 2))? })
    }

    /// Chooses the best marks for memory like `hay`.
    pub(super) fn choose_marks(&self, hay: &[u8]) -> MarkSet<'a> {
        // Bytes that are common elsewhere may occur later in this memory.
        let mut cost: [u32; 256] = std::array::from_fn(|byte| u32::from(commonness(byte as u8)) / 64);
        let step = (hay.len() / SAMPLES).max(SAMPLE);
        for piece in hay.chunks(step) {
            piece.iter().take(SAMPLE).for_each(|&b| cost[usize::from(b)] += 1);
        }
        let cost = |mark: &Mark| cost[usize::from(mark.byte)];
        let alone = self.needles.iter().filter_map(|(n, marks)| Some((*n, *marks.iter().min_by_key(|m| cost(m))?)));
        let mut marks: Vec<_> = alone.collect();
        if let [(one, ones), (other, others)] = &self.needles[..] {
            let both = ones.iter().filter_map(|m| Some((*m, *others.iter().find(|o| o.byte == m.byte)?)));
            let apart: u32 = marks.iter().map(|(_, m)| cost(m)).saturating_sum();
            if let Some((m, o)) = both.min_by_key(|(m, _)| cost(m)).filter(|(m, _)| cost(m) <= apart + SECOND_BYTE) {
                marks = vec![(*one, m), (*other, o)];
            }
        }
        let first = marks.first().map_or(0, |(_, m)| m.byte);
        let second = marks.last().map_or(0, |(_, m)| m.byte);
        let back = marks.iter().map(|(_, m)| m.at).max().unwrap_or(0);
        let others = self.needles.iter().zip(&marks).map(|((_, all), (_, mark))| {
            *all.iter().filter(|m| m.at != mark.at).min_by_key(|m| cost(m)).unwrap_or(mark)
        });
        MarkSet { others: others.collect(), marks, first, second, back }
    }
}

impl MarkSet<'_> {
    /// Collects the ranges of `starts` in which a match may start, sorted and disjoint.
    /// Each has at least `chunk` bytes, except at the end. Returns whether the marks are
    /// rare in `hay`.
    pub(super) fn candidates(
        &self,
        hay: &[u8],
        starts: &Range<usize>,
        chunk: usize,
        out: &mut Vec<Range<usize>>,
    ) -> bool {
        // Marks further on belong to no match of this window.
        let field = &hay[..hay.len().min(starts.end.saturating_add(self.back))];
        let mut at = starts.start;
        // Each stop adds to the debt, and each skipped byte reduces it.
        let (mut stops, mut debt) = (0, 0usize);
        while let Some(found) = field.get(at..).and_then(|rest| self.find(rest)) {
            let mark = at + found;
            stops += 1;
            debt = debt.saturating_sub(found) + COMMON;
            if debt <= PATIENCE * COMMON && !self.matches(hay, mark) {
                at = mark + 1;
                continue;
            }
            at = mark + chunk;
            let island = mark.saturating_sub(self.back).max(starts.start)..at.min(starts.end);
            match out.last_mut() {
                Some(last) if island.start <= last.end => last.end = island.end,
                _ => out.push(island),
            }
        }
        stops <= starts.len() / RARE
    }

    fn find(&self, hay: &[u8]) -> Option<usize> {
        if self.first == self.second { memchr(self.first, hay) } else { memchr2(self.first, self.second, hay) }
    }

    /// Whether the mark at `mark` may belong to a match.
    fn matches(&self, hay: &[u8], mark: usize) -> bool {
        self.marks.iter().zip(&self.others).any(|((needle, m), other)| {
            if hay.get((mark + other.at).wrapping_sub(m.at)) != Some(&other.byte) {
                return false;
            }
            let bytes = mark.checked_sub(m.at).and_then(|start| hay.get(start..)?.get(..needle.value.len()));
            bytes.is_some_and(|bytes| needle.matches(&bytes[..bytes.len().min(COMPARED)]))
        })
    }
}

/// Collects the ranges in which a match may start near pages that are not zero. A match
/// starts at most `back` bytes before a non-zero byte.
pub(super) fn near_data(window: &Window<'_>, page: usize, back: usize, out: &mut Vec<Range<usize>>) {
    let starts = &window.starts;
    let mut at = 0usize;
    for page in window.bytes.chunks(page) {
        let start = at.saturating_sub(back).max(starts.start);
        at += page.len();
        let end = at.min(starts.end);
        if start >= end || is_zero(page) {
            continue;
        }
        match out.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => out.push(start..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(needles: &[&[u8]], like: &[u8], hay: &[u8], starts: Range<usize>) -> Option<Vec<Range<usize>>> {
        let masked: Vec<Masked> = needles.iter().map(|n| Masked::exact(n.to_vec())).collect();
        let mut out = Vec::new();
        Prefilter::of(&masked.iter().collect::<Vec<_>>())?.choose_marks(like).candidates(hay, &starts, 4, &mut out);
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
            // Each byte is the rarest once.
            for rare in [&[], narrow].concat() {
                let like = [narrow, wide].concat().into_iter().filter(|&b| b != rare).collect::<Vec<_>>().repeat(9);
                for needle in [narrow, wide] {
                    for at in 0..60 {
                        let mut hay = vec![0; 80];
                        hay[at..at + needle.len()].copy_from_slice(needle);
                        let found = candidates(&[narrow, wide], &like, &hay, 5..40).unwrap_or_default();
                        let inside = found.iter().any(|r| r.contains(&at));
                        assert_eq!(inside, (5..40).contains(&at), "{needle:?} at {at}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn marks_are_what_is_rare_in_this_memory() {
        let (narrow, wide) = (Masked::exact(b"xyz".to_vec()), Masked::exact(b"x\0y\0z\0".to_vec()));
        let bytes = |needles: &[&Masked], like: &[u8]| {
            Prefilter::of(needles).map(|g| g.choose_marks(like)).map(|p| (p.first, p.second, p.back))
        };
        assert_eq!(bytes(&[&narrow, &wide], &b"xy".repeat(99)), Some((b'z', b'z', 4)));
        assert_eq!(bytes(&[&narrow, &wide], &b"xz".repeat(99)), Some((b'y', b'y', 2)));
        let (narrow, wide) = (Masked::exact("éa".into()), Masked::exact(b"\xe9\0a\0".to_vec()));
        assert_eq!(bytes(&[&narrow, &wide], &b"aaaa".repeat(99)), Some((0xc3, 0xe9, 0)));
        assert_eq!(bytes(&[&narrow, &wide], b""), Some((b'a', b'a', 2)));
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one island is what is expected")]
    fn memory_without_a_match_is_passed_over_unless_its_marks_are_common() {
        let text = b"the quick fox, aaabbb\0";
        assert_eq!(candidates(&[b"aXb", b"a\0X\0b\0"], b"", text, 0..22), Some(vec![]));
        assert_eq!(candidates(&[b"aXb"], b"", b"....X......aXb..........", 0..20), Some(vec![11..16]));
        assert_eq!(candidates(&[b"aX"], b"", &[b'X'; 30], 0..30), Some(vec![3..30]));
        assert_eq!(candidates(&[b"aXb", b"\0\0"], b"", b"", 0..0), None);
    }
}

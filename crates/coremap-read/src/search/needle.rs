//! One encoded form of a pattern, and the search for it in a block.

use std::ops::Range;

use memchr::arch::all::packedpair::HeuristicFrequencyRank;
use memchr::memmem::{Finder, FinderBuilder};
use regex::bytes::Regex;

use crate::search::hex::Masked;
use crate::search::prefilter::commonness;
pub use crate::words::HitEncoding;

/// One encoded form of a pattern.
pub(super) struct Needle {
    pub(super) encoding: HitEncoding,
    /// Maximum length in bytes of a match that is always found whole.
    pub(super) longest: usize,
    /// Whether a match depends on the bytes around it (`^`, `\b`).
    pub(super) looks_around: bool,
    /// Whether bytes that are all zero can match.
    pub(super) matches_zeros: bool,
    /// Whether the next match may start within this one.
    pub(super) overlaps: bool,
    /// Alignment of matches: addresses must be multiples of this.
    pub(super) align: u64,
    how: How,
}

enum How {
    /// Find `anchor`, a part without wildcards, then compare the rest.
    Anchored {
        masked: Masked,
        anchor: Range<usize>,
        finder: Box<Finder<'static>>,
    },
    /// Every byte has a wildcard, so compare everywhere.
    Compared(Masked),
    Regex(Regex),
}

/// Ranks bytes by frequency in memory, so that the search for a needle's bytes starts at
/// the rarest.
struct MemoryRank;

impl HeuristicFrequencyRank for MemoryRank {
    fn rank(&self, byte: u8) -> u8 {
        commonness(byte)
    }
}

impl Needle {
    /// Creates a needle of bytes. Some may be wildcards, but at least one must not be.
    pub(super) fn bytes(encoding: HitEncoding, masked: Masked) -> Needle {
        let longest = masked.value.len();
        let matches_zeros = masked.value.iter().all(|&b| b == 0);
        let how = match anchor(&masked) {
            Some(anchor) => {
                let bytes = &masked.value[anchor.clone()];
                let finder = Box::new(FinderBuilder::new().build_forward_with_ranker(MemoryRank, bytes).into_owned());
                How::Anchored { masked, anchor, finder }
            }
            None => How::Compared(masked),
        };
        Needle { encoding, longest, looks_around: false, matches_zeros, overlaps: true, align: 1, how }
    }

    /// Creates a needle from a regular expression that can't match the empty string.
    pub(super) fn regex(encoding: HitEncoding, regex: Regex) -> Needle {
        Needle {
            encoding,
            longest: 0,
            looks_around: false,
            matches_zeros: true,
            overlaps: false,
            align: 1,
            how: How::Regex(regex),
        }
    }

    /// Returns the bytes to compare. `None` for an expression.
    pub(super) fn masked(&self) -> Option<&Masked> {
        match &self.how {
            How::Anchored { masked, .. } | How::Compared(masked) => Some(masked),
            How::Regex(_) => None,
        }
    }

    /// Calls `hit` with start and length of each match in `hay` that starts in `starts`.
    /// `hay` includes context at both ends. `zeros` means that it is all zero.
    pub(super) fn find(&self, hay: &[u8], starts: Range<usize>, zeros: bool, mut hit: impl FnMut(usize, usize)) {
        match &self.how {
            How::Regex(regex) => {
                let mut at = starts.start;
                while at < starts.end
                    && let Some(m) = regex.find_at(hay, at)
                    && m.start() < starts.end
                {
                    if !m.is_empty() {
                        hit(m.start(), m.len());
                    }
                    at = if self.overlaps { m.start() + 1 } else { m.end().max(m.start() + 1) };
                }
            }
            How::Anchored { masked, .. } | How::Compared(masked) => {
                let len = masked.value.len();
                let Some(last) = hay.len().checked_sub(len) else { return };
                let starts = starts.start..starts.end.min(last + 1);
                if starts.is_empty() || zeros && !self.matches_zeros {
                    return;
                }
                match &self.how {
                    How::Anchored { anchor, finder, .. } if !zeros => {
                        let exact = anchor.len() == len;
                        let hay = &hay[starts.start..starts.end - 1 + len];
                        let field = &hay[anchor.start..hay.len() - (len - anchor.end)];
                        let mut at = 0;
                        while let Some(found) = finder.find(&field[at..]) {
                            let start = at + found;
                            if exact || masked.matches(&hay[start..start + len]) {
                                hit(starts.start + start, len);
                            }
                            at = start + 1;
                        }
                    }
                    _ => {
                        for start in starts {
                            if zeros || masked.matches(&hay[start..start + len]) {
                                hit(start, len);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the part without wildcards that is rarest in memory: the one with most
/// non-zero bytes, then the longest.
fn anchor(masked: &Masked) -> Option<Range<usize>> {
    let mut best: Option<((usize, usize), Range<usize>)> = None;
    let mut at = 0;
    for part in masked.mask.chunk_by(|a, b| (*a == 0xff) == (*b == 0xff)) {
        let range = at..at + part.len();
        at = range.end;
        let score = (masked.value[range.clone()].iter().filter(|&&b| b != 0).count(), range.len());
        if part.first() == Some(&0xff) && best.as_ref().is_none_or(|(s, _)| *s < score) {
            best = Some((score, range));
        }
    }
    best.map(|(_, range)| range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::error::PatternError;
    use crate::search::hex;

    fn starts(pattern: &str, hay: &[u8], within: Range<usize>) -> Result<Vec<usize>, PatternError> {
        let mut out = Vec::new();
        Needle::bytes(HitEncoding::Hex, hex::parse(pattern)?).find(hay, within, false, |at, _| out.push(at));
        Ok(out)
    }

    #[test]
    fn the_anchor_is_the_part_least_zero() -> Result<(), PatternError> {
        assert_eq!(anchor(&hex::parse("00 00 00 ?? 41")?), Some(4..5));
        assert_eq!(anchor(&hex::parse("41 ?? 00 41 ?? 41")?), Some(2..4));
        assert_eq!(anchor(&hex::parse("4? ?1")?), None);
        Ok(())
    }

    #[test]
    fn wildcards_before_and_after_the_anchor_need_their_bytes() -> Result<(), PatternError> {
        let hay = b"xabxab";
        assert_eq!(starts("?? 61 62", hay, 0..6)?, [0, 3]);
        assert_eq!(starts("61 62 ??", hay, 0..6)?, [1]);
        assert_eq!(starts("6? ?2", hay, 0..6)?, [1, 4]);
        assert_eq!(starts("61", hay, 2..4)?, Vec::<usize>::new());
        assert_eq!(starts("61 62", hay, 4..5)?, [4]);
        assert_eq!(starts("61 62 78 61 62 78 78", hay, 0..6)?, Vec::<usize>::new());
        Ok(())
    }
}

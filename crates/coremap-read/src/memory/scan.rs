//! Finds dumped pages that are all zero, in one parallel pass. A page that is not zero usually shows it in its first
//! cache line, so most of a full page is never touched.

use crate::addr::{Addr, AddrRange, PAGE};
use crate::memory::pages::{PageRun, walk};
use crate::progress::Progress;
use crate::sums::SaturatingSum;
use crate::targets::{Run, Target};

/// Zero and written bytes of one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroStat {
    /// Bytes in whole dumped pages that are all zero.
    pub zero: u64,
    /// Bytes in all other dumped pages. Pages that could not be read are in neither sum.
    pub written: u64,
    /// Lowest dumped address in a page that is not all zero.
    pub first_written: Option<Addr>,
}

impl ZeroStat {
    /// Adds the result for another range.
    pub fn merge(&mut self, other: ZeroStat) {
        self.zero += other.zero;
        self.written += other.written;
        self.first_written = match (self.first_written, other.first_written) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Whether all bytes are zero. Checks the first cache line first.
pub fn is_zero(page: &[u8]) -> bool {
    is_filled(page, 0)
}

/// Whether all bytes are `fill`. Checks the first cache line first.
pub fn is_filled(page: &[u8], fill: u8) -> bool {
    const LINE: usize = 64;
    let head = &page[..page.len().min(LINE)];
    if head.iter().any(|&b| b != fill) {
        return false;
    }
    let (blocks, tail) = page.as_chunks::<LINE>();
    // Folding a whole line before the branch lets the compiler use vectors.
    blocks.iter().all(|line| line.iter().fold(0, |acc, &b| acc | (b ^ fill)) == 0) && tail.iter().all(|&b| b == fill)
}

/// Scans the dumped bytes of `ranges` (sorted, disjoint). Returns one result for each.
///
/// Pages are counted from the start of each dumped run, which producers align. If two ranges share a page, the page is
/// judged as a whole, and each range counts its own bytes of it.
pub fn zero_pages(target: &dyn Target, ranges: &[AddrRange], progress: &Progress) -> Vec<ZeroStat> {
    let pieces = target.facts().space.pieces.iter();
    let runs: Vec<Run<'_>> = pieces.flat_map(|piece| target.dumped_runs(piece.range)).collect();
    target.expect_scan_of(ranges.iter().map(|range| target.facts().space.dumped_in(*range)).saturating_sum());
    let found = walk(
        target,
        &runs,
        progress,
        |chunk| Cursor::new(ranges, chunk.start).wants(chunk),
        |_, chunk| (Cursor::new(ranges, chunk.start), Vec::new()),
        |(cursor, out), range, part| {
            let zero = match part {
                PageRun::Hole => true,
                PageRun::Page(page) => page.len() as u64 == PAGE && cursor.wants(range) && is_zero(page),
            };
            cursor.give(range, zero, out);
            zero
        },
    );
    let mut stats = vec![ZeroStat::default(); ranges.len()];
    for (i, stat) in found.into_iter().flat_map(|(_, out)| out) {
        stats[i].merge(stat);
    }
    stats
}

/// Steps through the ranges along with the pages of a chunk.
struct Cursor<'a> {
    ranges: &'a [AddrRange],
    next: usize,
}

impl<'a> Cursor<'a> {
    fn new(ranges: &'a [AddrRange], start: Addr) -> Cursor<'a> {
        Cursor { ranges, next: ranges.partition_point(|r| r.end <= start) }
    }

    /// Whether any range overlaps `part`.
    fn wants(&mut self, part: AddrRange) -> bool {
        while self.ranges.get(self.next).is_some_and(|r| r.end <= part.start) {
            self.next += 1;
        }
        self.ranges.get(self.next).is_some_and(|r| r.start < part.end)
    }

    fn give(&mut self, part: AddrRange, zero: bool, out: &mut Vec<(usize, ZeroStat)>) {
        while self.ranges.get(self.next).is_some_and(|r| r.end <= part.start) {
            self.next += 1;
        }
        let mut i = self.next;
        while let Some(common) = self.ranges.get(i).and_then(|r| r.intersect(&part)) {
            let stat = if zero {
                ZeroStat { zero: common.len(), ..ZeroStat::default() }
            } else {
                ZeroStat { zero: 0, written: common.len(), first_written: Some(common.start) }
            };
            match out.last_mut() {
                Some((last, sum)) if *last == i => sum.merge(stat),
                _ => out.push((i, stat)),
            }
            i += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_anywhere_makes_a_page_not_zero() {
        let mut page = vec![0u8; 4096];
        assert!(is_zero(&page));
        for at in [0, 63, 64, 4095] {
            page[at] = 1;
            assert!(!is_zero(&page), "byte {at}");
            page[at] = 0;
        }
    }

    #[test]
    fn a_shared_page_is_split_by_bytes() {
        let r = |a, b| AddrRange::new(Addr::new(a), Addr::new(b));
        let ranges = [r(0, 100), r(100, 5000), r(9000, 9001)];
        let mut cursor = Cursor::new(&ranges, Addr::NULL);
        let mut out = Vec::new();
        cursor.give(r(0, 4096), true, &mut out);
        cursor.give(r(4096, 8192), false, &mut out);
        assert_eq!(
            out,
            vec![
                (0, ZeroStat { zero: 100, ..ZeroStat::default() }),
                (1, ZeroStat { zero: 3996, written: 904, first_written: Some(Addr::new(4096)) }),
            ]
        );
    }
}

//! Dumped memory as contiguous spans, whatever its order in the file, and the windows of
//! it that are searched at once.

use std::ops::Range;

use crate::addr::{Addr, AddrRange, union};
use crate::search::window::{Reach, Window};
use crate::targets::Target;

/// Minimum number of match starts in a copied window, so that a sequence of tiny parts
/// costs few copies.
const MIN_COPIED: usize = 64;

/// Memory that is contiguous in the file, or in a hole of it.
struct FilePart<'a> {
    range: AddrRange,
    /// Bytes. `None` for a hole, which is all zero and never read.
    bytes: Option<&'a [u8]>,
    /// Index of the span it belongs to.
    span: usize,
}

/// All memory in the core.
pub(super) struct Spans<'a> {
    /// Parts, sorted and disjoint.
    parts: Vec<FilePart<'a>>,
    /// Memory without gaps. A match is within one span.
    spans: Vec<AddrRange>,
    /// Buffer of zeros for holes.
    zeros: Vec<u8>,
    block: usize,
    reach: Reach,
}

impl<'a> Spans<'a> {
    /// Collects the memory of `target`, for windows of at most `block` match starts.
    pub(super) fn of(target: &'a dyn Target, reach: Reach, block: usize) -> Spans<'a> {
        let zeros = vec![0; reach.before + block + reach.after];
        let mut out = Spans { parts: Vec::new(), spans: Vec::new(), zeros, block, reach };
        let extents = target.extents();
        for run in target.dumped_runs(AddrRange::new(Addr::NULL, Addr::MAX)) {
            match out.spans.last_mut() {
                Some(last) if last.end == run.range.start => last.end = run.range.end,
                _ => out.spans.push(run.range),
            }
            let mut done = 0;
            for data in extents.within(run.offset..run.offset + run.range.len()) {
                let (from, to) = (data.start - run.offset, data.end - run.offset);
                out.push(run.range, done..from, None);
                out.push(run.range, from..to, Some(run.bytes));
                done = to;
            }
            out.push(run.range, done..run.range.len(), None);
        }
        out
    }

    fn push(&mut self, run: AddrRange, part: Range<u64>, bytes: Option<&'a [u8]>) {
        if part.is_empty() {
            return;
        }
        self.parts.push(FilePart {
            range: AddrRange::sized(run.start.saturating_add(part.start), part.end - part.start),
            bytes: bytes.map(|b| &b[part.start as usize..part.end as usize]),
            span: self.spans.len() - 1,
        });
    }

    /// Returns all memory, sorted and disjoint.
    pub(super) fn all(&self) -> &[AddrRange] {
        &self.spans
    }

    /// Returns the ranges in which a match with a non-zero byte may start.
    pub(super) fn near_data(&self) -> Vec<AddrRange> {
        let back = self.reach.back as u64;
        let near = self.parts.iter().filter(|p| p.bytes.is_some()).map(|p| {
            let start = p.range.start.saturating_sub(back).max(self.spans[p.span].start);
            AddrRange::new(start, p.range.end)
        });
        union(near.collect())
    }

    /// Divides `range`, which is within one span, into windows, in order. Each has the
    /// context that the reach requires, as far as the span has it.
    pub(super) fn windows(&self, range: AddrRange, mut each: impl FnMut(&Window<'_>)) {
        let after = self.reach.after as u64;
        let mut copied = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let index = self.parts.partition_point(|p| p.range.end <= at);
            let Some(part) = self.parts.get(index).filter(|p| p.range.contains(at)) else { return };
            let span = self.spans[part.span];
            let base = at.saturating_sub(self.reach.before as u64).max(span.start);
            // Matches that start below this have all their context in the part.
            let inner = if part.range.end == span.end { span.end } else { part.range.end.saturating_sub(after) };
            let mut end = at.saturating_add(self.block as u64).min(range.end).min(inner);
            let in_part = base >= part.range.start && end > at;
            if !in_part {
                let least = MIN_COPIED.max(self.reach.before).max(self.reach.after);
                end = at.saturating_add(least as u64).min(range.end);
            }
            let whole = AddrRange::new(base, end.saturating_add(after).min(span.end));
            let bytes = match part.bytes {
                _ if !in_part => {
                    self.copy(whole, &mut copied);
                    &copied[..]
                }
                Some(bytes) => slice(bytes, part.range, whole),
                None => &self.zeros[..whole.len() as usize],
            };
            let starts = at.since(base) as usize..end.since(base) as usize;
            each(&Window { bytes, base, starts, zeros: in_part && part.bytes.is_none() });
            at = end;
        }
    }

    fn copy(&self, range: AddrRange, out: &mut Vec<u8>) {
        out.clear();
        let first = self.parts.partition_point(|p| p.range.end <= range.start);
        for part in &self.parts[first..] {
            let Some(common) = part.range.intersect(&range) else { break };
            match part.bytes {
                Some(bytes) => out.extend_from_slice(slice(bytes, part.range, common)),
                None => out.resize(out.len() + common.len() as usize, 0),
            }
        }
    }
}

/// Returns the bytes of `range`, which is within `part`.
fn slice(bytes: &[u8], part: AddrRange, range: AddrRange) -> &[u8] {
    &bytes[range.start.since(part.start) as usize..range.end.since(part.start) as usize]
}

/// Returns the intersection of two lists of sorted, disjoint ranges.
pub(super) fn intersect(a: &[AddrRange], b: &[AddrRange]) -> Vec<AddrRange> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        out.extend(x.intersect(y));
        if x.end <= y.end {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_common() {
        let r = |a, b| AddrRange::new(Addr::new(a), Addr::new(b));
        let a = [r(0, 10), r(20, 30), r(40, 41)];
        let b = [r(5, 22), r(25, 26), r(28, 50)];
        assert_eq!(intersect(&a, &b), [r(5, 10), r(20, 22), r(25, 26), r(28, 30), r(40, 41)]);
        assert_eq!(intersect(&a, &[]), []);
    }
}

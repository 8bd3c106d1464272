//! Finds the range that may contain an address, among many ranges.
//!
//! Heaps are in few neighbourhoods (above the program, among the libraries), tebibytes apart. Each neighbourhood is
//! divided into buckets of equal length, about as many as it has ranges. So a lookup needs no binary search over all
//! ranges.

/// Distance in bytes from which two ranges are in different spans.
const FAR: u64 = 1 << 30;

/// A group of ranges near each other.
#[derive(Debug)]
struct Span {
    start: u64,
    end: u64,
    /// Number of address bits within a bucket.
    shift: u32,
    /// For each bucket: the number of ranges (of all spans) that start at or before the bucket's start. The last entry
    /// is the number of ranges that start before the span's end.
    buckets: Vec<u32>,
}

/// Index of ranges by address.
#[derive(Debug, Default)]
pub(super) struct RangeIndex {
    starts: Vec<u64>,
    spans: Vec<Span>,
}

impl RangeIndex {
    /// Builds the index. `ranges` (start, end) must be sorted by start.
    pub(super) fn new(ranges: impl Iterator<Item = (u64, u64)>) -> RangeIndex {
        let mut starts: Vec<u64> = Vec::new();
        // Start, end and first range of each span.
        let mut bounds: Vec<(u64, u64, usize)> = Vec::new();
        for (start, end) in ranges {
            match bounds.last_mut() {
                Some(last) if start.saturating_sub(last.1) < FAR => last.1 = last.1.max(end),
                _ => bounds.push((start, end, starts.len())),
            }
            starts.push(start);
        }
        let mut spans = Vec::with_capacity(bounds.len());
        let ends = bounds.iter().skip(1).map(|b| b.2).chain([starts.len()]);
        for (&(start, end, first), last) in bounds.iter().zip(ends) {
            let own = starts.get(first..last).unwrap_or_default();
            let len = end.saturating_sub(start);
            let mut shift = 0;
            while len >> shift >= 2 * own.len() as u64 {
                shift += 1;
            }
            let below = |at: u64| (first + own.partition_point(|s| *s <= at)) as u32;
            let buckets = (0..=len >> shift).map(|k| below(start.saturating_add(k << shift)));
            spans.push(Span { start, end, shift, buckets: buckets.chain([last as u32]).collect() });
        }
        RangeIndex { starts, spans }
    }

    /// Returns the last range that starts at or before `addr`. It need not contain `addr`. `None` only if no range
    /// contains `addr`.
    #[inline]
    pub(super) fn find(&self, addr: u64) -> Option<usize> {
        let span = self.spans.get(self.spans.partition_point(|s| s.start <= addr).checked_sub(1)?)?;
        if addr >= span.end {
            return None;
        }
        let bucket = ((addr - span.start) >> span.shift) as usize;
        let (from, to) = (*span.buckets.get(bucket)? as usize, *span.buckets.get(bucket + 1)? as usize);
        (from + self.starts.get(from..to)?.partition_point(|s| *s <= addr)).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_range_at_or_before_an_address_is_found_as_by_a_search() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for count in [0, 1, 2, 3, 100, 3000] {
            let mut starts: Vec<u64> = (0..count)
                .map(|i| match i % 3 {
                    0 => 0x5555_0000_0000 + next() % (1 << 24),
                    1 => 0x7fff_0000_0000 + next() % (1 << 34),
                    _ => next(),
                })
                .collect();
            starts.sort_unstable();
            let len = 1 << 16;
            let index = RangeIndex::new(starts.iter().map(|&s| (s, s.saturating_add(len))));
            let mut tried: Vec<u64> = (0..4000).map(|_| next()).chain([0, u64::MAX]).collect();
            tried.extend(starts.iter().flat_map(|s| {
                [s.saturating_sub(1), *s, s.saturating_add(1), s.saturating_add(len - 1), s.saturating_add(len)]
            }));
            for addr in tried {
                let wanted = starts.partition_point(|s| *s <= addr).checked_sub(1);
                let within = |i: &usize| addr < starts[*i].saturating_add(len);
                let found = index.find(addr);
                assert!(found.is_none() || found == wanted, "{addr:#x} of {count}");
                assert_eq!(found.filter(within), wanted.filter(within), "{addr:#x} of {count}");
            }
        }
    }
}

//! The data extents of a target. Everything outside is zero and need not be read.

use std::ops::Range;

use crate::sums::SaturatingSum;

/// Sorted, disjoint ranges of places with data. All other places read as zero.
#[derive(Clone, Debug)]
pub struct Extents {
    data: Vec<Range<u64>>,
}

impl Extents {
    /// Wraps ranges that are sorted and disjoint.
    pub(crate) fn new(data: Vec<Range<u64>>) -> Extents {
        Extents { data }
    }

    /// A single extent of `len` bytes.
    pub fn dense(len: u64) -> Extents {
        Extents { data: std::iter::once(0..len).collect() }
    }

    /// The parts of `range` with data.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.data.partition_point(|e| e.end <= range.start);
        self.data[first..]
            .iter()
            .take_while({
                let end = range.end;
                move |e| e.start < end
            })
            .map(move |e| e.start.max(range.start)..e.end.min(range.end))
    }

    /// Total bytes of data.
    pub fn data_bytes(&self) -> u64 {
        self.data.iter().map(|e| e.end - e.start).saturating_sum()
    }
}

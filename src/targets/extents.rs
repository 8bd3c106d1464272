//! Which places of a target hold data: all else is zero without a look.

use std::ops::Range;

/// Sorted, disjoint ranges of places that hold data; all else reads as zero.
#[derive(Clone, Debug)]
pub struct Extents {
    data: Vec<Range<u64>>,
}

impl Extents {
    /// These, which are sorted and disjoint.
    pub(crate) fn new(data: Vec<Range<u64>>) -> Extents {
        Extents { data }
    }

    /// One extent over everything.
    pub fn dense(len: u64) -> Extents {
        Extents { data: std::iter::once(0..len).collect() }
    }

    /// The parts of `range` that hold data.
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

    /// Bytes of data in all.
    pub fn data_bytes(&self) -> u64 {
        self.data.iter().map(|e| e.end - e.start).sum()
    }
}

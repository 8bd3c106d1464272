//! One walk over the heap for several collectors, so that locks and tasks do not read the heap twice.

use rayon::prelude::*;

use crate::progress::Progress;
use crate::runtimes::api::{Heap as _, HeapRange, Object, UnwalkedRanges};
use crate::runtimes::coreclr::heap::Heap;

/// Collects what it needs from the objects of a heap.
pub(in crate::runtimes::coreclr) trait Collector: Sync {
    /// What one worker found.
    type Found: Send;

    /// An empty result.
    fn begin(&self) -> Self::Found;

    /// Visits an object.
    fn visit(&self, found: &mut Self::Found, object: &Object);

    /// Joins the results of two parts of the heap, the later one second.
    fn join(&self, found: Self::Found, later: Self::Found) -> Self::Found;
}

/// Walks the heap once for two collectors. Returns what they found, and what could not be walked.
pub(in crate::runtimes::coreclr) fn collect<A: Collector, B: Collector>(
    heap: &Heap<'_>,
    first: &A,
    second: &B,
    progress: &Progress,
) -> (A::Found, B::Found, UnwalkedRanges) {
    progress.start(heap.ranges().iter().map(|part| part.range.len()).fold(0, u64::saturating_add));
    let begin = || (first.begin(), second.begin(), UnwalkedRanges::default());
    let of_part = |(mut a, mut b, mut losses): (A::Found, B::Found, UnwalkedRanges), part: &HeapRange| {
        heap.walker().walk(part, &mut losses, &mut |object| {
            first.visit(&mut a, object);
            second.visit(&mut b, object);
        });
        progress.add(part.range.len());
        (a, b, losses)
    };
    let join = |(a, b, mut losses): (A::Found, B::Found, UnwalkedRanges),
                later: (A::Found, B::Found, UnwalkedRanges)| {
        losses.merge(later.2);
        (first.join(a, later.0), second.join(b, later.1), losses)
    };
    heap.ranges().par_iter().fold(begin, of_part).reduce(begin, join)
}

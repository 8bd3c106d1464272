//! The time limit of an analysis whose result is dropped if it takes longer.
//!
//! Long loops query it, and end early once it has passed. Whoever set it then drops the result: a part of a sum would
//! be a false sum. So only analyses that store nothing for later questions may run under a limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Represents no limit.
const NONE: u64 = u64::MAX;

/// Items that a loop processes between two queries of [`Deadline::has_passed`]: a query costs some 30 ns.
pub(crate) const QUERY_INTERVAL: usize = 1 << 12;

/// A point in time after which loops end early.
#[derive(Debug)]
#[doc(hidden)]
pub struct Deadline {
    start: Instant,
    /// Nanoseconds from `start`.
    end: AtomicU64,
    /// Whether a loop ended early.
    cut: AtomicBool,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline { start: Instant::now(), end: AtomicU64::new(NONE), cut: AtomicBool::new(false) }
    }
}

/// A limit that is set. It ends with this guard.
#[must_use]
#[doc(hidden)]
pub struct TimeLimit<'d> {
    deadline: &'d Deadline,
    /// The limit before.
    outer: u64,
    /// Whether a loop under the limit before has ended early.
    outer_cut: bool,
}

impl Deadline {
    /// Limits all loops to `end`, until the result is dropped or finished.
    #[doc(hidden)]
    pub fn limit(&self, end: Instant) -> TimeLimit<'_> {
        let nanos = end.saturating_duration_since(self.start).as_nanos();
        self.limit_to(u64::try_from(nanos).unwrap_or(NONE - 1))
    }

    fn limit_to(&self, end: u64) -> TimeLimit<'_> {
        let outer = self.end.load(Ordering::Relaxed);
        self.end.store(end.min(outer), Ordering::Relaxed);
        TimeLimit { deadline: self, outer, outer_cut: self.cut.swap(false, Ordering::Relaxed) }
    }

    /// Whether the caller must end early.
    #[inline]
    pub(crate) fn has_passed(&self) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        if end == NONE || self.start.elapsed() < Duration::from_nanos(end) {
            return false;
        }
        self.cut.store(true, Ordering::Relaxed);
        true
    }
}

impl TimeLimit<'_> {
    /// Ends the limit. Returns whether all loops ran to their ends.
    #[doc(hidden)]
    pub fn finish(self) -> bool {
        !self.deadline.cut.load(Ordering::Relaxed)
    }
}

impl Drop for TimeLimit<'_> {
    fn drop(&mut self) {
        self.deadline.end.store(self.outer, Ordering::Relaxed);
        self.deadline.cut.store(self.outer_cut, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_until_it_is_finished() {
        let deadline = Deadline::default();
        assert!(!deadline.has_passed());
        let whole = deadline.limit(Instant::now() + Duration::from_secs(3600));
        assert!(!deadline.has_passed());
        // An analysis within another has a limit of its own; that it is cut does not cut the other.
        let inner = deadline.limit(Instant::now());
        assert!(deadline.has_passed());
        assert!(!inner.finish());
        assert!(!deadline.has_passed());
        assert!(whole.finish());
        let (outer, part) = (deadline.limit(Instant::now()), deadline.limit_to(NONE));
        assert!(deadline.has_passed());
        assert!(!part.finish());
        assert!(outer.finish());
        let passed = deadline.limit(Instant::now());
        // The loops made no query, so they ran to their ends.
        assert!(passed.finish());
        assert!(!deadline.has_passed());
    }
}

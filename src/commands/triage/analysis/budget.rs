//! The time budget of an analysis.

use std::time::{Duration, Instant};

use crate::session::Session;

/// A budget of wall-clock time, since users wait for the answer.
pub(super) struct Budget {
    end: Option<Instant>,
    /// Skipped analyses, in words.
    pub(super) left_out: Vec<String>,
}

impl Budget {
    /// Creates a budget that starts now. `None` means no limit.
    pub(super) fn new(time: Option<Duration>) -> Budget {
        Budget { end: time.and_then(|time| Instant::now().checked_add(time)), left_out: Vec::new() }
    }

    /// Whether there is time to process `bytes` at `a_second` bytes per second. If not, records `what` as skipped. The
    /// rates are estimates from measurements (docs/performance.md).
    pub(super) fn allows(&mut self, what: &str, bytes: u64, a_second: u64) -> bool {
        let Some(end) = self.end else { return true };
        let takes = Duration::from_secs_f64(bytes as f64 / a_second.max(1) as f64);
        let left = end.saturating_duration_since(Instant::now());
        if takes <= left && !left.is_zero() {
            return true;
        }
        self.left_out.push(format!(
            "{what} (estimated {:.1} s, {:.1} s left)",
            takes.as_secs_f64(),
            left.as_secs_f64()
        ));
        false
    }

    /// Runs an analysis if the estimate allows it. Estimates can be wrong, so the analysis also ends when the time is
    /// up. Then there is no result, and `what` is recorded as skipped. The analysis must not store anything for later
    /// ones.
    pub(super) fn run<T>(
        &mut self,
        session: &Session<'_>,
        what: &str,
        (bytes, a_second): (u64, u64),
        analysis: impl FnOnce(&mut Budget) -> T,
    ) -> Option<T> {
        if !self.allows(what, bytes, a_second) {
            return None;
        }
        let Some(end) = self.end else { return Some(analysis(self)) };
        let limit = session.process.target().reads().deadline().limit(end);
        let result = analysis(self);
        if limit.finish() {
            return Some(result);
        }
        self.ended_early(what);
        None
    }

    /// Records that `what` ended before it was complete.
    pub(super) fn ended_early(&mut self, what: &str) {
        self.left_out.push(format!("{what} (took longer than estimated)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_take_longer_is_left_out_and_told() {
        let mut all = Budget::new(None);
        assert!(all.allows("everything", u64::MAX, 1));
        let mut little = Budget::new(Some(Duration::from_secs(5)));
        assert!(little.allows("a page", 4096, 1 << 30));
        assert!(!little.allows("a heap", 100 << 30, 1 << 30));
        assert_eq!(little.left_out.len(), 1);
        assert!(little.left_out[0].starts_with("a heap (estimated 100.0 s"), "{:?}", little.left_out);
        assert!(!Budget::new(Some(Duration::ZERO)).allows("anything", 0, 1));
    }
}

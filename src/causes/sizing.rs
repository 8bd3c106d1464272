//! A managed heap that is mostly free: how much, and which setting keeps it committed.

use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::units::round;

/// Minimum size of a heap in bytes, and minimum free share in percent, for a finding.
const LARGE: u64 = 48 << 20;
const FREE: u64 = 70;

/// Returns the finding on a heap of `committed` bytes, of which objects use `used` and live ones `live`. `setting`: the
/// setting that keeps it committed.
pub(crate) fn sizing(committed: u64, used: u64, live: Option<u64>, setting: Option<&str>) -> Option<Finding> {
    let free = committed.saturating_sub(used);
    if committed < LARGE || free.saturating_mul(100) < committed.saturating_mul(FREE) {
        return None;
    }
    let live = live.map_or_else(String::new, |live| format!(", live ones {}", round(live)));
    let setting = setting.map_or_else(String::new, |setting| format!(" {setting}."));
    let text = format!(
        "{} of the managed heap are free, of {} committed: objects take {}{live}. It was written by an earlier peak; this \
         is no leak.{setting}",
        round(free),
        round(committed),
        round(used)
    );
    let finding = Finding::new("heap-sizing", Severity::Info, text, "the heap's memory, and its objects");
    Some(finding.about(free).known(Confidence::Derived).within("managed-heap").fingerprinted("free"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_heap_is_mostly_free_from_seven_tenths_on() {
        let found = sizing(200 << 20, 8 << 20, Some(1 << 20), Some("-Xms keeps it")).unwrap();
        assert!(found.text.starts_with("192 MiB of the managed heap are free, of 200 MiB committed"), "{}", found.text);
        assert!(sizing(200 << 20, 61 << 20, None, None).is_none());
        assert!(sizing(40 << 20, 0, None, None).is_none());
    }
}

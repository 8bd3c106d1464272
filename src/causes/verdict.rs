//! The last finding: nothing wrong was found, or what could not be judged.

use crate::causes::ranking::{self, Family, HOLDER_BYTES, HOLDER_SHARE};
use crate::report::{Finding, Severity};
use crate::units::round;

/// Returns the finding that closes the list. `None` if another finding is a warning. `missing`: what was not read, in
/// words.
pub(crate) fn verdict(findings: &[Finding], missing: &[String]) -> Option<Finding> {
    if findings.iter().any(|finding| finding.severity > Severity::Info) {
        return None;
    }
    let waits = findings.iter().any(|finding| ranking::family(finding.id) == Family::BlockedHolder);
    let (least, share) = (round(HOLDER_BYTES), HOLDER_SHARE);
    let holder =
        format!("no owner that can grow without limit and has at least {least} and {share} % of the live bytes");
    Some(match missing {
        [] => Finding::new(
            "no-problem",
            Severity::Info,
            match waits {
                false => format!(
                    "Nothing wrong was found: no crash signal, no cycle of waits, no thread that blocks others, and {holder}."
                ),
                true => format!(
                    "Nothing else was found: no crash signal, no cycle of waits, and {holder}. Whether the waits \
                     above end is not known."
                ),
            },
            "all threads, and what they wait for; all roots of the heap",
        ),
        _ => Finding::new(
            "not-judged",
            Severity::Info,
            format!("Not judged: whether anything else is wrong. Not read: {}.", missing.join("; ")),
            "warnings of this answer; --symbols may help",
        ),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn nothing_is_called_healthy_where_something_was_not_read() {
        let nothing = verdict(&[], &[]).unwrap();
        assert!(
            nothing.id == "no-problem" && nothing.text.contains("no thread that blocks others"),
            "{}",
            nothing.text
        );
        let found = verdict(&[], &["stacks of 3 threads".to_owned()]).unwrap();
        assert!(found.id == "not-judged" && found.text.contains("stacks of 3 threads"), "{}", found.text);
        let waits = Finding::new("lock-waiters", Severity::Info, "", "");
        let beside = verdict(&[waits], &[]).unwrap().text;
        assert!(!beside.contains("Nothing wrong") && beside.contains("Whether the waits above end"), "{beside}");
        let warning = Finding::new("retained", Severity::Warning, "", "");
        assert!(verdict(&[warning], &[]).is_none());
    }
}

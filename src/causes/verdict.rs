//! The last finding: nothing wrong was found, or what could not be judged.

use crate::report::{Finding, Severity};

/// The finding that closes the list. `None` if another finding is a warning. `missing`: what was not read, in words.
pub(crate) fn verdict(findings: &[Finding], missing: &[String]) -> Option<Finding> {
    if findings.iter().any(|finding| finding.severity > Severity::Info) {
        return None;
    }
    Some(match missing {
        [] => Finding::new(
            "no-problem",
            Severity::Info,
            "Nothing wrong was found: no signal of its own, no circle of waits, nobody who blocks others, and no variable \
             that keeps a third of the live bytes without a limit.",
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
        assert_eq!(verdict(&[], &[]).unwrap().id, "no-problem");
        let found = verdict(&[], &["stacks of 3 threads".to_owned()]).unwrap();
        assert!(found.id == "not-judged" && found.text.contains("stacks of 3 threads"), "{}", found.text);
        let warning = Finding::new("retained", Severity::Warning, "", "");
        assert!(verdict(&[warning], &[]).is_none());
    }
}

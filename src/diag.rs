//! Diagnostics: what could not be read or understood, as data for the report.
//!
//! A phase that fails reports it here, and the other phases continue. The first few messages of each code are
//! stored, later ones only counted.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::limits;

/// A warning: something failed, or the reader must take it into account.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Warning {
    /// Stable machine-readable code, e.g. `truncated`.
    pub code: &'static str,
    /// One line of text.
    pub message: String,
}

#[derive(Default)]
struct Inner {
    kept: Vec<Warning>,
    counts: BTreeMap<&'static str, usize>,
    partial: bool,
}

/// Collects warnings of all phases. Shared, so that readers with `&self` can report.
#[derive(Default)]
pub struct Diagnostics {
    inner: Mutex<Inner>,
}

impl Diagnostics {
    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut guard = match self.inner.lock() {
            Ok(guard) => guard,
            // A panic elsewhere must not hide what was found so far.
            Err(poisoned) => poisoned.into_inner(),
        };
        f(&mut guard)
    }

    fn push(&self, code: &'static str, message: String, partial: bool) {
        tracing::debug!(code, %message, "diagnostic");
        self.with(|inner| {
            inner.partial |= partial;
            let count = inner.counts.entry(code).or_insert(0);
            *count += 1;
            let known = inner.kept.iter().any(|w| w.code == code && w.message == message);
            if *count <= limits::MAX_WARNINGS_PER_CODE && !known {
                inner.kept.push(Warning { code, message });
            }
        });
    }

    /// Part of the core could not be read or understood (exit status 4).
    pub fn partial(&self, code: &'static str, message: impl Into<String>) {
        self.push(code, message.into(), true);
    }

    /// Worth knowing, but nothing is missing from the answer.
    pub fn note(&self, code: &'static str, message: impl Into<String>) {
        self.push(code, message.into(), false);
    }

    /// Whether any phase gave only a partial answer.
    pub fn is_partial(&self) -> bool {
        self.with(|inner| inner.partial)
    }

    /// All warnings in order of arrival, with one line for each code whose later warnings were only counted.
    pub fn warnings(&self) -> Vec<Warning> {
        self.with(|inner| {
            let mut out = inner.kept.clone();
            for (&code, &count) in &inner.counts {
                if count > limits::MAX_WARNINGS_PER_CODE {
                    let more = count - limits::MAX_WARNINGS_PER_CODE;
                    out.push(Warning { code, message: format!("{more} more like this") });
                }
            }
            out
        })
    }
}

/// Logs (`-v`) that an item of the process was read. Each is read once and then cached: `tests/all/once.rs`
/// counts.
pub(crate) fn was_read(what: &str) {
    tracing::debug!(what, "read");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_a_code_are_counted_not_kept() {
        let d = Diagnostics::default();
        for i in 0..100 {
            d.note("x", format!("number {i}"));
        }
        let w = d.warnings();
        assert_eq!(w.len(), limits::MAX_WARNINGS_PER_CODE + 1);
        assert_eq!(w[limits::MAX_WARNINGS_PER_CODE].message, "92 more like this");
        assert!(!d.is_partial());
        d.partial("y", "lost");
        assert!(d.is_partial());
    }
}

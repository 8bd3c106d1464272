//! `--fail-if`: compares figures of a report with limits, for CI.

mod error;
mod parse;
#[cfg(test)]
mod tests;

pub use error::ConditionError;

use crate::commands::diff::{DiffReport, DiffRow};
use crate::commands::summary::{KindRow, SummaryReport};
use crate::map::Kind;
use crate::report::{ConditionRow, Finding, KindOrTotal};
use crate::units::{exact, human};

/// The report that a condition applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `summary`: percentages are of the total in the same column (of the total's
    /// size for the largest region).
    Summary,
    /// `diff`: percentages are of the older core's figure.
    Diff,
    /// `triage`: whether it reports a finding with this id.
    Triage,
}

/// A limit on one figure of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    text: String,
    subject: Subject,
    column: &'static str,
    op: Op,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Kind(Kind),
    Total,
    Threads,
    /// Whether there is a finding with this id. Such a condition has no limit.
    Finding(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
}

/// An exact limit as written: `mantissa / scale` units, or `mantissa / scale` percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Figure { mantissa: i128, scale: i128, unit: u64 },
    Percent { mantissa: i128, scale: i128 },
}

impl Condition {
    /// Parses a condition such as `stack.written>1GiB`, `gcheap.delta>20%` or `finding=deadlock`.
    ///
    /// # Errors
    ///
    /// [`ConditionError`] says what is wrong and what is allowed.
    pub fn parse(text: &str, scope: Scope) -> Result<Condition, ConditionError> {
        parse::parse(text, scope)
    }

    /// Whether the condition's column needs a scan of all pages.
    pub fn needs_scan(&self) -> bool {
        matches!(self.column, "written" | "zero")
    }

    /// Whether the condition's column needs resident figures.
    pub fn needs_residence(&self) -> bool {
        matches!(self.column, "rss" | "pss" | "private_dirty" | "swap")
    }

    /// The condition as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Compares a figure with the limit. `whole` is the denominator of percentages, and `of` its name.
    fn judge(&self, value: i128, whole: u64, of: &str) -> ConditionRow {
        let (left, right) = match self.limit {
            Limit::Figure { mantissa, scale, unit } => (value * scale, mantissa * i128::from(unit)),
            Limit::Percent { mantissa, scale } => (value * 100 * scale, mantissa * i128::from(whole)),
        };
        let (holds, relation, other) = match self.op {
            Op::Above => (left > right, "more than", "not more than"),
            Op::AtLeast => (left >= right, "at least", "less than"),
            Op::Below => (left < right, "less than", "not less than"),
            Op::AtMost => (left <= right, "at most", "more than"),
            Op::Equal => (left == right, "equal to", "not equal to"),
        };
        let limit = self.text.trim_start_matches(|c| !matches!(c, '<' | '>' | '=')).trim_start_matches(['<', '>', '=']);
        let percentage = matches!(self.limit, Limit::Percent { .. });
        let mut text = format!("{} {} is {}", self.name(), self.column, self.in_words(value));
        if percentage {
            let share = match whole {
                0 => "a share of 0".to_owned(),
                _ => format!("{:.1} %", value as f64 * 100.0 / whole as f64),
            };
            text.push_str(&format!(", {share} of {of} ({})", exact(whole)));
        }
        text.push_str(&format!(": {} {}", if holds { relation } else { other }, limit.trim()));
        ConditionRow {
            condition: self.text.clone(),
            holds,
            value: i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX }),
            whole: percentage.then_some(whole),
            text,
        }
    }

    /// Checks whether there is a finding with the id. `None` if the condition is about a figure.
    fn judge_finding(&self, findings: &[Finding]) -> Option<ConditionRow> {
        let Subject::Finding(id) = self.subject else { return None };
        let found: Vec<&Finding> = findings.iter().filter(|f| f.id == id).collect();
        let bytes = found.iter().filter_map(|f| f.bytes).fold(0, u64::saturating_add);
        Some(ConditionRow {
            condition: self.text.clone(),
            holds: !found.is_empty(),
            value: i64::try_from(bytes).unwrap_or(i64::MAX),
            whole: None,
            text: found.first().map_or_else(|| format!("no finding '{id}'"), |f| f.text.clone()),
        })
    }

    fn name(&self) -> &'static str {
        match self.subject {
            Subject::Kind(k) => k.name(),
            Subject::Total => "total",
            Subject::Threads => "threads:",
            Subject::Finding(id) => id,
        }
    }

    fn in_words(&self, value: i128) -> String {
        let n = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
        let sign = match value {
            v if v < 0 => "-",
            v if v > 0 && self.column.starts_with("delta") => "+",
            _ => "",
        };
        if self.column.ends_with("count") || self.subject == Subject::Threads {
            return format!("{sign}{}", exact(n));
        }
        format!("{sign}{} ({sign}{} bytes)", human(n), exact(n))
    }
}

/// Checks conditions on findings.
pub fn judge_findings(conditions: &[Condition], findings: &[Finding]) -> Vec<ConditionRow> {
    conditions.iter().filter_map(|c| c.judge_finding(findings)).collect()
}

/// Checks conditions against a summary of a process with `threads` threads. A kind that the core does not contain
/// counts as 0.
pub fn judge_summary(conditions: &[Condition], report: &SummaryReport, threads: u64) -> Vec<ConditionRow> {
    let t = &report.total;
    let total = KindRow {
        count: t.count,
        size: t.size,
        in_core: t.in_core,
        largest: t.size,
        zero: t.zero,
        written: t.written,
        resident: t.resident,
        ..KindRow::default()
    };
    let none = KindRow::default();
    let figure = |row: &KindRow, column: &str| match column {
        "size" => row.size,
        "in_core" => row.in_core,
        "written" => row.written.unwrap_or(0),
        "zero" => row.zero.unwrap_or(0),
        "largest" => row.largest,
        "rss" => row.resident.rss.unwrap_or(0),
        "pss" => row.resident.pss.unwrap_or(0),
        "private_dirty" => row.resident.private_dirty.unwrap_or(0),
        "swap" => row.resident.swap.unwrap_or(0),
        _ => row.count,
    };
    conditions
        .iter()
        .map(|c| {
            if let Some(row) = c.judge_finding(&report.findings) {
                return row;
            }
            let value = match c.subject {
                Subject::Finding(_) => 0,
                Subject::Threads => threads,
                Subject::Total => figure(&total, c.column),
                Subject::Kind(k) => figure(report.kinds.iter().find(|row| row.kind == k).unwrap_or(&none), c.column),
            };
            c.judge(i128::from(value), figure(&total, c.column), "the total")
        })
        .collect()
}

/// Checks conditions against a comparison. A kind that neither core contains counts as 0.
pub fn judge_diff(conditions: &[Condition], report: &DiffReport) -> Vec<ConditionRow> {
    let none = DiffRow::default();
    conditions
        .iter()
        .map(|c| {
            let row = match c.subject {
                Subject::Threads => &DiffRow {
                    old: report.threads.old,
                    new: report.threads.new,
                    delta: report.threads.delta,
                    ..DiffRow::default()
                },
                Subject::Total => &report.total,
                Subject::Finding(_) => &none,
                Subject::Kind(k) => report.kinds.iter().find(|row| row.kind == KindOrTotal::Kind(k)).unwrap_or(&none),
            };
            let (value, whole) = match c.column {
                "old" => (i128::from(row.old), row.old),
                "new" => (i128::from(row.new), row.old),
                "delta" => (i128::from(row.delta), row.old),
                "old_count" => (i128::from(row.old_count), row.old_count),
                "new_count" => (i128::from(row.new_count), row.old_count),
                "delta_count" => (i128::from(row.delta_count), row.old_count),
                "old_in_core" => (i128::from(row.old_in_core), row.old_in_core),
                "new_in_core" => (i128::from(row.new_in_core), row.old_in_core),
                _ => (i128::from(row.delta_in_core), row.old_in_core),
            };
            c.judge(value, whole, "old")
        })
        .collect()
}

//! Parses conditions such as `stack.written>1GiB`. Errors list what is allowed.

use crate::commands::conditions::{Condition, ConditionError, Limit, Op, Scope, Subject};
use crate::map::Kind;
use crate::report::finding_id;
use crate::units;

/// Maximum number of digits of a number, before and after the point together,
/// so that it fits in 64 bits.
const MAX_DIGITS: usize = 18;

const SUMMARY: &[&str] =
    &["size", "in_core", "written", "zero", "count", "largest", "rss", "pss", "private_dirty", "swap"];

/// Columns of the total of `summary`. It has no largest region.
const TOTAL: &[&str] = &["size", "in_core", "written", "zero", "count", "rss", "pss", "private_dirty", "swap"];

const DIFF: &[&str] =
    &["old", "new", "delta", "old_count", "new_count", "delta_count", "old_in_core", "new_in_core", "delta_in_core"];

/// Parses a condition.
///
/// # Errors
/// [`ConditionError`] if `text` is not a condition.
pub(super) fn parse(text: &str, scope: Scope) -> Result<Condition, ConditionError> {
    if let Some(name) = text.trim().strip_prefix("finding=").filter(|_| scope != Scope::Diff) {
        let name = name.trim();
        let id = finding_id(name).ok_or_else(|| ConditionError::Finding { name: name.to_owned() })?;
        let limit = Limit::Figure { mantissa: 0, scale: 1, unit: 1 };
        return Ok(Condition {
            text: text.to_owned(),
            subject: Subject::Finding(id),
            column: "count",
            op: Op::Above,
            limit,
        });
    }
    if scope == Scope::Triage {
        return Err(ConditionError::OnlyFindings);
    }
    let at = text.find(['<', '>', '=', '!']).ok_or(ConditionError::Form { scope })?;
    let (left, rest) = text.split_at(at);
    let (op, right) = [("<=", Op::AtMost), (">=", Op::AtLeast), ("==", Op::Equal), ("<", Op::Below), (">", Op::Above)]
        .into_iter()
        .find_map(|(sign, op)| Some((op, rest.strip_prefix(sign)?)))
        .ok_or(ConditionError::Comparison)?;
    let (name, column) = left.trim().split_once('.').ok_or(ConditionError::NoColumn { scope })?;
    let subject = subject(name.trim())?;
    let column = find_column(column.trim(), subject, scope)?;
    let limit = limit(right.trim(), column.ends_with("count") || subject == Subject::Threads)?;
    if scope == Scope::Summary && matches!(limit, Limit::Percent { .. }) {
        match subject {
            Subject::Kind(_) => {}
            Subject::Total => return Err(ConditionError::ShareOfTotal),
            Subject::Threads => return Err(ConditionError::ShareOfThreads),
            Subject::Finding(_) => {}
        }
    }
    Ok(Condition { text: text.to_owned(), subject, column, op, limit })
}

fn subject(name: &str) -> Result<Subject, ConditionError> {
    match name.to_ascii_lowercase().as_str() {
        "total" => Ok(Subject::Total),
        "threads" => Ok(Subject::Threads),
        _ => Kind::from_name(name).map(Subject::Kind).ok_or_else(|| ConditionError::Kind { name: name.to_owned() }),
    }
}

fn find_column(name: &str, subject: Subject, scope: Scope) -> Result<&'static str, ConditionError> {
    let (all, whose): (&'static [&'static str], _) = match (scope, subject) {
        (Scope::Summary, Subject::Threads) => (&["count"], "threads have"),
        (Scope::Diff, Subject::Threads) => (&["old", "new", "delta"], "threads have"),
        (Scope::Summary, Subject::Total) => (TOTAL, "total has"),
        (Scope::Summary | Scope::Triage, _) => (SUMMARY, "summary has"),
        (Scope::Diff, _) => (DIFF, "diff has"),
    };
    let found = all.iter().copied().find(|c| c.eq_ignore_ascii_case(name));
    found.ok_or_else(|| ConditionError::Column { name: name.to_owned(), whose, all })
}

fn limit(text: &str, counts: bool) -> Result<Limit, ConditionError> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (mantissa, scale) = decimal(number).ok_or_else(|| ConditionError::Limit { text: text.to_owned() })?;
    let unit = unit.trim().to_ascii_lowercase();
    if unit == "%" {
        return Ok(Limit::Percent { mantissa, scale });
    }
    if unit.is_empty() {
        return Ok(Limit::Figure { mantissa, scale, unit: 1 });
    }
    match units::multiple(&unit) {
        Some(_) if counts => Err(ConditionError::Count { text: text.to_owned() }),
        Some(unit) => Ok(Limit::Figure { mantissa, scale, unit }),
        None => Err(ConditionError::Unit { unit }),
    }
}

/// Returns `-1.5` as (-15, 10).
fn decimal(text: &str) -> Option<(i128, i128)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let fits = !whole.is_empty() && all.len() <= MAX_DIGITS && all.bytes().all(|b| b.is_ascii_digit());
    let dangling = digits.ends_with('.');
    if !fits || dangling {
        return None;
    }
    Some((sign * all.parse::<i128>().ok()?, 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?))
}

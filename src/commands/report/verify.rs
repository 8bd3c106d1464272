//! Compares the data of a page with a core.

use serde_json::Value;
use thiserror::Error;

use crate::commands::report::PageOptions;
use crate::commands::report::analysis::data;
use crate::commands::report::gather::{self, Limits};
use crate::diag::WarningCode;
use crate::map::audit::Invariant;
use crate::progress::Progress;
use crate::session::Session;

/// The JSON embedded in a page.
#[derive(Clone, Debug)]
pub struct PageData(Value);

/// Why a file is not a page of `report`.
#[derive(Debug, Error)]
pub enum PageDataError {
    /// The file contains no data element.
    #[error("it contains no data of `coremap report`")]
    None,
    /// The data cannot be parsed.
    #[error("its data cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

/// Text before and after the data in a page.
const DATA_START: &str = "<script type=\"application/json\" id=\"data\">";
const DATA_END: &str = "</script>";

/// Reads the data of a page.
///
/// # Errors
/// [`PageDataError`]
pub fn read_page(html: &str) -> Result<PageData, PageDataError> {
    // The last occurrence: data of the core before it cannot contain a tag.
    let (_, rest) = html.rsplit_once(DATA_START).ok_or(PageDataError::None)?;
    let (text, _) = rest.split_once(DATA_END).ok_or(PageDataError::None)?;
    let value: Value = serde_json::from_str(text)?;
    if value.get("command").and_then(Value::as_str) != Some("report") {
        return Err(PageDataError::None);
    }
    Ok(PageData(value))
}

/// Parts that are compared, and the name of each comparison in the answer.
const PARTS: &[(&str, &str)] = &[
    ("info", "page: info"),
    ("triage", "page: triage"),
    ("summary", "page: summary"),
    ("regions", "page: regions"),
    ("stacks", "page: stacks"),
    ("threads", "page: threads"),
    ("heapstat", "page: heapstat"),
    ("retained", "page: retained"),
    ("dominators", "page: dominators"),
    ("heap", "page: heap"),
    ("malloc", "page: malloc"),
    ("leaks", "page: leaks"),
    ("holders", "page: holders"),
    ("anon", "page: anon"),
    ("boxes", "page: boxes"),
    ("strip", "page: strip"),
];

/// Checks that each part of the page's data matches the process. For a page
/// about two cores, `session` is the newer one.
pub fn verify(session: &Session<'_>, page: &PageData, progress: &Progress) -> Vec<Invariant> {
    let show_data = page.0.get("show_data").and_then(Value::as_bool).unwrap_or(false);
    let halved = page.0.get("halved").and_then(Value::as_u64).unwrap_or(0).min(10) as u32;
    let answers = gather::ask(session, &Limits::default(), show_data, progress);
    let (ours, _) = data(session, &answers, None, PageOptions { show_data }, halved);
    let mut checks = Vec::new();
    for &(part, name) in PARTS {
        let (theirs, ours) = (page.0.get(part), ours.get(part));
        let different = match (theirs, ours) {
            (None, None) => continue,
            (Some(theirs), Some(ours)) => difference(part, theirs, ours),
            (None, Some(_)) => Some(format!("{part} is not in the page")),
            (Some(_), None) => Some(format!("{part} is in the page but not in the core")),
        };
        if let Some(different) = &different {
            session.process.diag.partial(WarningCode::Invariant, format!("{name}: {different}"));
        }
        checks.push(Invariant {
            name,
            ok: different.is_none(),
            detail: different.unwrap_or_else(|| "matches the core".to_owned()),
        });
    }
    checks
}

/// Returns the first difference. Commands and paths are ignored: they name the
/// file as given, which may have moved.
fn difference(place: &str, theirs: &Value, ours: &Value) -> Option<String> {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let names = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
            names.filter(|name| !matches!(name.as_str(), "command" | "path")).find_map(|name| {
                let null = Value::Null;
                let (theirs, ours) = (theirs.get(name).unwrap_or(&null), ours.get(name).unwrap_or(&null));
                difference(&format!("{place}.{name}"), theirs, ours)
            })
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if theirs.len() != ours.len() {
                return Some(format!("{place}: {} rows in the page, {} in the core", theirs.len(), ours.len()));
            }
            let pairs = theirs.iter().zip(ours).enumerate();
            pairs.into_iter().find_map(|(at, (theirs, ours))| difference(&format!("{place}[{at}]"), theirs, ours))
        }
        _ if theirs == ours => None,
        _ => Some(format!("{place}: {} in the page, {} in the core", shown(theirs), shown(ours))),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_told_with_its_place() {
        let theirs = json!({ "kinds": [{ "kind": "Stack", "size": 1 }], "path": "/a" });
        let ours = json!({ "kinds": [{ "kind": "Stack", "size": 2 }], "path": "/b" });
        assert_eq!(
            difference("summary", &theirs, &ours).as_deref(),
            Some("summary.kinds[0].size: 1 in the page, 2 in the core")
        );
        assert_eq!(difference("summary", &theirs, &theirs), None);
        let fewer = json!({ "kinds": [], "path": "/a" });
        assert_eq!(
            difference("summary", &fewer, &ours).as_deref(),
            Some("summary.kinds: 0 rows in the page, 1 in the core")
        );
    }

    #[test]
    fn what_is_no_page_is_told() {
        assert!(matches!(read_page("<html></html>"), Err(PageDataError::None)));
        assert!(matches!(read_page(&format!("{DATA_START}{{{DATA_END}")), Err(PageDataError::Json(_))));
        assert!(matches!(read_page(&format!("{DATA_START}{{}}{DATA_END}")), Err(PageDataError::None)));
        assert!(read_page(&format!("{DATA_START}{{\"command\":\"report\"}}{DATA_END}")).is_ok());
    }
}

//! One page of a long answer: the first rows of each list, and a cursor for the rest.

use coremap::program::printable;
use serde_json::{Map, Value, json};

/// Lengths of an answer in bytes: default, minimum and maximum.
pub(super) const DEFAULT_BYTES: usize = 8 << 10;
pub(super) const MIN_BYTES: usize = 2 << 10;
pub(super) const MAX_BYTES: usize = 64 << 10;

/// Maximum length of a text in an answer, in characters.
const MAX_TEXT: usize = 400;

/// Maximum length of a text in characters in a row that would be too large otherwise.
const SHORT_TEXT: usize = 80;

/// Maximum number of lists that can be continued. No command's answer has as many.
const MAX_LISTS: usize = 64;

/// One page of an answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) answer: Value,
    /// Lists that are not complete on this page.
    pub(super) cut: Vec<Value>,
    /// Start of the next page. `None` if there is none.
    pub(super) cursor: Option<String>,
}

/// The cursor belongs to another question.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongCursor;

/// A list in an answer: the names of the fields that lead to it, and its elements.
type List<'a> = (Vec<&'a str>, &'a [Value]);

/// Returns the page of `answer` at `cursor`, of at most `max` bytes as JSON. Each list continues where it ended on the
/// last page. `main`: JSON pointer to the most important list.
///
/// # Errors
/// Fails if the cursor belongs to another question.
pub(super) fn page(answer: &Value, main: &str, cursor: Option<&str>, max: usize) -> Result<Page, WrongCursor> {
    let mut lists = Vec::new();
    collect(answer, &mut Vec::new(), &mut lists);
    let from = match cursor {
        None => vec![0; lists.len()],
        Some(cursor) => positions(cursor, &lists).ok_or(WrongCursor)?,
    };
    let page = without_lists(answer, &mut lists.len());
    let left = max.saturating_sub(length(&page));
    let mut filling = Filling { page, left, most: max / 4, at: from.clone(), cut: Vec::new(), any: false };
    let main = lists.iter().position(|(path, _)| pointer(path) == main);
    // The most important list gets its share first. Then each list gets a row in turn, so that all get space.
    let share = left - left / 5 * MAIN_FIFTHS;
    while filling.left > share && main.is_some_and(|i| filling.add(i, &lists)) {}
    let mut open: Vec<usize> = (0..lists.len()).collect();
    while !open.is_empty() {
        open.retain(|&i| filling.add(i, &lists));
    }
    let Filling { page, at, mut cut, .. } = filling;
    for ((path, rows), (&from, &to)) in lists.iter().zip(from.iter().zip(&at)) {
        if from > 0 || to < rows.len() {
            cut.push(json!({ "list": pointer(path), "from": from, "shown": to - from, "of": rows.len() }));
        }
    }
    let is_more = lists.iter().zip(&at).any(|((_, rows), &at)| at < rows.len());
    let cursor = is_more.then(|| at.iter().map(ToString::to_string).collect::<Vec<_>>().join("."));
    Ok(Page { answer: page, cut, cursor })
}

/// Share of a page that the most important list gets first, in fifths.
const MAIN_FIFTHS: usize = 3;

/// A page while rows are added.
struct Filling {
    page: Value,
    /// Free bytes on the page.
    left: usize,
    /// Maximum length of a row in bytes.
    most: usize,
    /// Number of rows of each list on this page and on the pages before.
    at: Vec<usize>,
    cut: Vec<Value>,
    /// Whether the page has a row.
    any: bool,
}

impl Filling {
    /// Adds the next row of a list. Returns false if there is none, or if it does not fit.
    fn add(&mut self, list: usize, lists: &[List<'_>]) -> bool {
        let (Some((path, rows)), Some(at)) = (lists.get(list), self.at.get_mut(list)) else { return false };
        let Some(row) = rows.get(*at) else { return false };
        let mut row = tidy(row, MAX_TEXT);
        let is_long = length(&row) >= self.most;
        let cuts = if is_long { shrink(&mut row, self.most, &format!("{}/{at}", pointer(path))) } else { Vec::new() };
        // Without this, a page might have no row, and paging would never end.
        if self.any && length(&row) >= self.left {
            return false;
        }
        self.left = self.left.saturating_sub(length(&row) + 1);
        self.cut.extend(cuts);
        if let Some(Value::Array(to)) = get_mut(&mut self.page, path) {
            to.push(row);
        }
        (*at, self.any) = (*at + 1, true);
        true
    }
}

fn length(value: &Value) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

fn pointer(path: &[&str]) -> String {
    path.iter().map(|name| format!("/{name}")).collect()
}

/// Collects the lists of an answer that are in no other list. Field names are coremap's own. A key that does not look
/// like one may be text of the process, so lists below it are not continued.
fn collect<'a>(value: &'a Value, path: &mut Vec<&'a str>, lists: &mut Vec<List<'a>>) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        if !is_field(name) {
            continue;
        }
        path.push(name);
        match value {
            Value::Array(rows) if !rows.is_empty() && lists.len() < MAX_LISTS => lists.push((path.clone(), rows)),
            _ => collect(value, path, lists),
        }
        path.pop();
    }
}

/// Whether a key looks like a field name.
pub(super) fn is_field(name: &str) -> bool {
    name.len() < 40 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn positions(cursor: &str, lists: &[List<'_>]) -> Option<Vec<usize>> {
    let at: Vec<usize> = cursor.split('.').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let fits = at.len() == lists.len() && at.iter().zip(lists).all(|(&at, (_, rows))| at <= rows.len());
    fits.then_some(at)
}

/// Returns the answer with empty lists: the first `left` lists that [`collect`] finds.
fn without_lists(value: &Value, left: &mut usize) -> Value {
    let Value::Object(fields) = value else { return tidy(value, MAX_TEXT) };
    let mut out = Map::new();
    for (name, value) in fields {
        let value = match value {
            _ if !is_field(name) => tidy(value, MAX_TEXT),
            Value::Array(rows) if !rows.is_empty() && *left > 0 => {
                *left -= 1;
                json!([])
            }
            value => without_lists(value, left),
        };
        out.insert(safe(name, MAX_TEXT), value);
    }
    out.into()
}

fn get_mut<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, name| value.get_mut(*name))
}

/// Copies a value. Texts are escaped, and cut to `max` characters.
fn tidy(value: &Value, max: usize) -> Value {
    match value {
        Value::String(text) => Value::String(safe(text, max)),
        Value::Array(values) => values.iter().map(|value| tidy(value, max)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (safe(name, max), tidy(value, max))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// A text without control characters and invisible characters, cut to `max` characters.
pub(super) fn safe(text: &str, max: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(max) {
        None => text.into_owned(),
        Some((end, _)) => {
            let more = text.get(end..).map_or(0, |rest| rest.chars().count());
            format!("{}… ({more} more characters)", text.get(..end).unwrap_or_default())
        }
    }
}

/// Halves the longest list in a row until the row fits, then shortens its texts. Returns what was cut.
fn shrink(row: &mut Value, max: usize, path: &str) -> Vec<Value> {
    let mut cut: Vec<(String, usize, usize)> = Vec::new();
    // Each round halves a list, so few rounds are needed.
    for _ in 0..200 {
        if length(row) < max {
            break;
        }
        let Some((path, list)) = longest(row, path.to_owned()) else {
            *row = tidy(row, SHORT_TEXT);
            break;
        };
        let had = list.len();
        list.truncate(had / 2);
        match cut.iter_mut().find(|(of, ..)| *of == path) {
            Some(known) => known.1 = had / 2,
            None => cut.push((path, had / 2, had)),
        }
    }
    let cuts = cut.into_iter();
    cuts.map(|(list, shown, of)| json!({ "list": list, "from": 0, "shown": shown, "of": of })).collect()
}

/// Returns the longest list in a value, by bytes, with its JSON pointer. A list within a list counts as part of the
/// outer one.
fn longest(value: &mut Value, path: String) -> Option<(String, &mut Vec<Value>)> {
    match value {
        Value::Array(list) if !list.is_empty() => Some((path, list)),
        Value::Object(fields) => {
            let of = |value: &Value| if has_list(value) { length(value) } else { 0 };
            let found = fields.iter_mut().filter(|(name, value)| is_field(name) && of(value) > 0);
            let (name, value) = found.max_by_key(|(_, value)| of(value))?;
            longest(value, format!("{path}/{name}"))
        }
        _ => None,
    }
}

fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => fields.iter().any(|(name, value)| is_field(name) && has_list(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        let types: Vec<Value> = (0..500).map(|n| json!({ "type": format!("Type{n}"), "count": n })).collect();
        json!({ "command": "x", "core": { "runtimes": [{ "name": "a" }] }, "types": types, "total": 500 })
    }

    #[test]
    fn pages_have_all_rows_once_and_none_is_too_long() {
        let answer = answer();
        let (mut cursor, mut rows, mut pages) = (None::<String>, Vec::new(), 0);
        loop {
            let Ok(page) = page(&answer, "/types", cursor.as_deref(), 2048) else { panic!("{cursor:?}") };
            assert!(length(&page.answer) <= 2048, "{}", length(&page.answer));
            assert_eq!(page.answer["total"], 500);
            rows.extend(page.answer["types"].as_array().cloned().unwrap_or_default());
            pages += 1;
            assert_eq!(page.cut[page.cut.len() - 1]["of"], 500);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(Value::from(rows), answer["types"]);
        assert!(pages > 3);
    }

    #[test]
    fn a_row_that_is_too_long_is_cut_inside() {
        let frames: Vec<Value> = (0..1000).map(|n| json!({ "method": format!("method {n}") })).collect();
        let answer = json!({ "groups": [{ "count": 7, "frames": frames }, { "count": 1, "frames": [] }] });
        let Ok(page) = page(&answer, "/groups", None, 2048) else { panic!() };
        assert!(length(&page.answer) <= 2048);
        assert_eq!(page.answer["groups"][0]["frames"][0]["method"], "method 0");
        assert_eq!(page.cut[0]["list"], "/groups/0/frames");
        assert_eq!(page.cut[0]["of"], 1000);
    }

    #[test]
    fn a_row_of_long_texts_is_shown_and_ends() {
        let answer = json!({ "rows": [{ "text": "x".repeat(100_000), "more": "y".repeat(100_000) }] });
        let Ok(page) = page(&answer, "/groups", None, MIN_BYTES) else { panic!() };
        assert!(page.cursor.is_none() && length(&page.answer) <= MIN_BYTES, "{}", length(&page.answer));
    }

    #[test]
    fn texts_are_escaped_and_cut() {
        let text = format!("\u{1b}[31m\u{202e}{}", "é".repeat(1000));
        let Ok(page) = page(&json!({ "name": text }), "", None, DEFAULT_BYTES) else { panic!() };
        let text = page.answer["name"].as_str().unwrap_or_default();
        assert!(text.starts_with("\\x1b[31m\\u{202e}é") && text.ends_with(" more characters)"), "{text}");
        assert!(text.chars().count() < 430);
    }

    #[test]
    fn a_cursor_of_another_question_is_refused() {
        for cursor in ["", "1", "0.501.0", "0.0.0.0", "x.y", "-1.0", "99999999999999999999999.0", "0.501"] {
            assert!(page(&answer(), "", Some(cursor), 2048).is_err(), "{cursor}");
        }
        assert!(page(&answer(), "", Some("1.500"), 2048).is_ok_and(|page| page.cursor.is_none()));
    }
}

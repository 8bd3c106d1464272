//! The report of `shrink`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::scrub::{Became, By, Counts, Encoding, Kept, LeftTexts, Runs};
use crate::session::Session;

/// `shrink`: the core that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ShrinkReport {
    /// Path.
    pub file: String,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of memory that it contains.
    pub kept: u64,
    /// Bytes of memory in the original core.
    pub in_core: u64,
    /// Number of memory segments.
    pub segments: usize,
    /// Number of readable texts of at least 8 characters in that memory, in UTF-8 (ASCII characters).
    pub text_utf8: u64,
    /// Number of readable texts in UTF-16.
    pub text_utf16: u64,
    /// For a scrubbed core: bytes of memory per scrub rule, largest first; they add up to `kept`. `null` if memory is
    /// unchanged.
    pub rules: Option<Vec<RuleRow>>,
    /// Bytes of headers and notes per scrub rule. With `rules` they add up to `size`.
    pub beside: Option<Vec<RuleRow>>,
    /// For a scrubbed core: readable text that remains (at least 6 consecutive ASCII characters), by location and
    /// reason. All of it should be names.
    pub text_left: Option<Vec<TextLeftRow>>,
    /// With `--list-text`: each of these texts.
    pub left_texts: Option<Vec<LeftText>>,
}

/// Bytes treated by one scrub rule; see docs/sharing.md.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuleRow {
    /// Name of the rule.
    pub rule: &'static str,
    /// What the rule did with them.
    pub became: Became,
    /// Number of bytes.
    pub bytes: u64,
}

/// Readable text that remains in regions of one kind for one reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TextLeftRow {
    /// Kind of region.
    pub region: Kind,
    /// Why it was kept.
    pub rule: Kept,
    /// Number of texts.
    pub runs: u64,
    /// Bytes of these texts.
    pub bytes: u64,
}

/// Rows of the counted bytes, largest first.
pub fn rule_rows(counts: &Counts) -> Vec<RuleRow> {
    let rows = By::all().map(|by| RuleRow { rule: by.name(), became: by.became(), bytes: counts.of(by) });
    let mut rows: Vec<RuleRow> = rows.filter(|row| row.bytes > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

/// Remaining text, largest first.
pub fn text_left(left: &LeftTexts) -> Vec<TextLeftRow> {
    let rows = left.runs.iter();
    let rows = rows.map(|(&(region, rule), &Runs { runs, bytes })| TextLeftRow { region, rule, runs, bytes });
    let mut rows: Vec<TextLeftRow> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

/// A text that remains in a scrubbed core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftText {
    /// Number of occurrences.
    pub count: u64,
    /// Address of the first one.
    pub address: Addr,
    /// Kind of the region of the first one.
    pub kind: Option<Kind>,
    /// Encoding.
    pub encoding: Encoding,
    /// The text, at most its first 1,024 characters.
    pub text: String,
}

/// Remaining texts, by address of their first occurrence. `None` if they were not requested.
pub fn left_texts(session: &Session<'_>, left: LeftTexts) -> Option<Vec<LeftText>> {
    let map = session.map();
    let rows = left.texts?.into_iter().map(|((text, encoding), places)| LeftText {
        count: places.count,
        address: places.first,
        kind: map.regions.at(places.first).map(|region| region.kind),
        encoding,
        text,
    });
    let mut rows: Vec<LeftText> = rows.collect();
    rows.sort_by_key(|row| row.address);
    Some(rows)
}

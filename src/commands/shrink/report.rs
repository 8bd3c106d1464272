//! The smaller core that was written.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::scrub::{Became, By, Counts, Encoding, Kept, LeftTexts, Runs};
use crate::session::Session;

/// `shrink`: the core that was written.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ShrinkReport {
    /// Its path.
    pub file: String,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes of memory that it holds.
    pub kept: u64,
    /// Bytes of memory that the core holds which it was made of.
    pub in_core: u64,
    /// Its segments of memory.
    pub segments: usize,
    /// Pieces of readable text in that memory, of at least 8 characters: in UTF-8 (those of ASCII).
    pub text_utf8: u64,
    /// The same in UTF-16.
    pub text_utf16: u64,
    /// Of a core that was scrubbed: bytes of its memory by the rule that each went by, `kept` in all, the most first; `null` where
    /// its memory is as it was.
    pub rules: Option<Vec<RuleRow>>,
    /// The same of what is no memory, headers and notes: with `rules` it adds up to `size`.
    pub beside: Option<Vec<RuleRow>>,
    /// Of a core that was scrubbed: readable text in what stayed, at least 6 characters of ASCII in a row, by where it is and why it
    /// stayed. They should all be names.
    pub text_left: Option<Vec<TextLeftRow>>,
    /// With `--list-text`: each of these texts.
    pub left_texts: Option<Vec<LeftText>>,
}

/// Bytes that went by one rule (docs/sharing.md has all).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuleRow {
    /// In a word.
    pub rule: &'static str,
    /// What became of them.
    pub became: Became,
    /// How many.
    pub bytes: u64,
}

/// Readable text that is left in regions of one kind, for one reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TextLeftRow {
    /// Kind of the regions.
    pub region: Kind,
    /// Why it stayed.
    pub rule: Kept,
    /// Texts.
    pub runs: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Rows of what was counted.
pub fn rule_rows(counts: &Counts) -> Vec<RuleRow> {
    let rows = By::all().map(|by| RuleRow { rule: by.name(), became: by.became(), bytes: counts.of(by) });
    let mut rows: Vec<RuleRow> = rows.filter(|row| row.bytes > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

/// How much text is left, the most first.
pub fn text_left(left: &LeftTexts) -> Vec<TextLeftRow> {
    let rows = left.runs.iter();
    let rows = rows.map(|(&(region, rule), &Runs { runs, bytes })| TextLeftRow { region, rule, runs, bytes });
    let mut rows: Vec<TextLeftRow> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

/// A text that is left in a core that was scrubbed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftText {
    /// In how many places.
    pub count: u64,
    /// The first of them.
    pub address: Addr,
    /// Kind of the region that holds the first.
    pub kind: Option<Kind>,
    /// How it is written.
    pub encoding: Encoding,
    /// The text, at most its first 1,024 characters.
    pub text: String,
}

/// Texts that are left, by their first place; `None` where they were not asked for.
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

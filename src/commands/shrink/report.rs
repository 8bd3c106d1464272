//! The smaller core that was written.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::scrub::{Counts, Encoding, LeftTexts};
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
    /// Of a core that was scrubbed: bytes of its memory by what became of them, `kept` in all; `null` where its memory is as
    /// it was.
    pub scrubbed: Option<Counts>,
    /// With `--list-text`: texts that are left in it, of at least 6 characters of ASCII.
    pub left_texts: Option<Vec<LeftText>>,
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

/// Texts that are left, by their first place.
pub fn left_texts(session: &Session<'_>, left: LeftTexts) -> Vec<LeftText> {
    let map = session.map();
    let rows = left.texts.into_iter().map(|((text, encoding), places)| LeftText {
        count: places.count,
        address: places.first,
        kind: map.regions.at(places.first).map(|region| region.kind),
        encoding,
        text,
    });
    let mut rows: Vec<LeftText> = rows.collect();
    rows.sort_by_key(|row| row.address);
    rows
}

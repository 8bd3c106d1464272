//! The smaller core that was written.

use schemars::JsonSchema;
use serde::Serialize;

use crate::scrub::Counts;

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
}

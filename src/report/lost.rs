//! What could not be walked.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::{Addr, AddrRange};

/// What could not be walked.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LostRow {
    /// Bytes in all.
    pub bytes: u64,
    /// Number of places.
    pub count: u64,
    /// The first of them.
    pub places: Vec<LossRow>,
}

/// A place without an object that is known.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LossRow {
    /// Where.
    #[serde(flatten)]
    pub range: AddrRangeRow,
    /// Why.
    pub reason: String,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct AddrRangeRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Bytes.
    pub size: u64,
}

impl From<AddrRange> for AddrRangeRow {
    fn from(range: AddrRange) -> AddrRangeRow {
        AddrRangeRow { start: range.start, end: range.end, size: range.len() }
    }
}

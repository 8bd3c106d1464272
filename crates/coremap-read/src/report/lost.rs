//! Memory that could not be walked.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::{Addr, AddrRange};

/// Memory that could not be walked.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LostRow {
    /// Total bytes.
    pub bytes: u64,
    /// Number of ranges.
    pub count: u64,
    /// The first ranges.
    pub places: Vec<LossRow>,
}

/// A range that could not be walked.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LossRow {
    /// Its addresses.
    #[serde(flatten)]
    pub range: AddrRangeRow,
    /// Reason.
    pub reason: String,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct AddrRangeRow {
    /// First address.
    pub start: Addr,
    /// First address after the range.
    pub end: Addr,
    /// Size in bytes.
    pub size: u64,
}

impl From<AddrRange> for AddrRangeRow {
    fn from(range: AddrRange) -> AddrRangeRow {
        AddrRangeRow { start: range.start, end: range.end, size: range.len() }
    }
}

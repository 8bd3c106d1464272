use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::report::{HitEncoding, Name};

/// `search`
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchReport {
    /// What was looked for, as given.
    pub pattern: String,
    /// Matches, by address.
    pub hits: Vec<HitRow>,
    /// Matches in all, also those beyond the limit.
    pub total: u64,
    /// Bytes of memory looked at.
    pub scanned: u64,
}

/// One match.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HitRow {
    /// Where it begins.
    pub address: Addr,
    /// In which form it was found.
    pub encoding: HitEncoding,
    /// Kind of the region it lies in.
    pub kind: Option<Kind>,
    /// Which one, and where in it.
    pub detail: String,
    /// Its length in bytes.
    pub length: u64,
    /// The text around it, where that was asked for.
    pub context: Option<String>,
    /// Where in `context` the match begins, in characters.
    pub match_start: Option<u64>,
    /// Its characters there.
    pub match_length: Option<u64>,
    /// The managed object that it begins in; `null` in free space of the heap.
    pub object: Option<Addr>,
    /// That object's type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// The object's field or element where it begins.
    pub field: Option<Name>,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::report::{HitEncoding, Name};

/// `search`: matches of a text, regular expression or byte sequence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchReport {
    /// The pattern as given.
    pub pattern: String,
    /// Matches, by address.
    pub hits: Vec<HitRow>,
    /// Number of matches, including those beyond the limit.
    pub total: u64,
    /// Bytes of memory scanned.
    pub scanned: u64,
}

/// A match.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HitRow {
    /// Start address.
    pub address: Addr,
    /// Form in which it was found.
    pub encoding: HitEncoding,
    /// Kind of its region.
    pub kind: Option<Kind>,
    /// Detail of the region, and the position in it.
    pub detail: String,
    /// Length in bytes.
    pub length: u64,
    /// Surrounding text, if requested.
    pub context: Option<String>,
    /// Start of the match in `context`, in characters.
    pub match_start: Option<u64>,
    /// Length of the match in `context`, in characters.
    pub match_length: Option<u64>,
    /// Managed object that contains its start. `null` in free space of the heap.
    pub object: Option<Addr>,
    /// Type of that object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Field or element of the object at its start.
    pub field: Option<Name>,
}

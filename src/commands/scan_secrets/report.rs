use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::{HitEncoding, SecretKind, SecretSeverity};

/// `scan-secrets`: what to check before you share a core. No field contains a value that was found, or part of one.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretsReport {
    /// Matches by kind, most severe first; kinds without matches are omitted.
    pub secrets: Vec<SecretKindRow>,
    /// Number of matches of all kinds.
    pub total: u64,
    /// Bytes of memory scanned.
    pub scanned: u64,
    /// Whether the core contains the arguments and environment of the process start.
    pub start_known: bool,
}

/// Matches of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretKindRow {
    /// The kind.
    pub kind: SecretKind,
    /// Possible damage.
    pub severity: SecretSeverity,
    /// Confidence: `derived` if each match passed a check (check digits, checksum, decoding), `heuristic` if the form
    /// alone matches, `exact` for the kernel's argument block.
    pub confidence: Confidence,
    /// Number of matches; one secret may match several times.
    pub count: u64,
    /// Number of matches that passed a check.
    pub checked: u64,
    /// Number of different values. `null` if there are too many to count.
    pub distinct: Option<u64>,
    /// Kinds of regions that contain them, by count.
    pub regions: Vec<SecretRegionRow>,
    /// Some of them, at most two per kind of region.
    pub examples: Vec<SecretExampleRow>,
    /// Command that shows the first with its value; CORE represents the core.
    pub command: String,
}

/// Matches in regions of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretRegionRow {
    /// Kind of region. `null` for a note of the core, which is not memory.
    pub kind: Option<Kind>,
    /// Number of matches.
    pub count: u64,
}

/// Location of a match.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretExampleRow {
    /// Start address, including its prefix. `null` in a note.
    pub address: Option<Addr>,
    /// Kind of region. `null` in a note.
    pub kind: Option<Kind>,
    /// Detail of the region, and the position in it.
    pub detail: String,
    /// Encoding of the text.
    pub encoding: HitEncoding,
}

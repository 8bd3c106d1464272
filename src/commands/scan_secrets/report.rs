use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::{Confidence, Kind};
use crate::report::{HitEncoding, SecretKind, SecretSeverity};

/// `scan-secrets`: what should be looked at before a core is handed on. No field has a value that was found, or a part of one.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretsReport {
    /// What was found, the worst first; kinds of which there is nothing are left out.
    pub secrets: Vec<SecretKindRow>,
    /// Places of all kinds.
    pub total: u64,
    /// Bytes of memory looked at.
    pub scanned: u64,
    /// Whether arguments and environment of the process's start are known: the core has that part of the stack.
    pub start_known: bool,
}

/// What was found of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretKindRow {
    /// What it is.
    pub kind: SecretKind,
    /// What may come of it.
    pub severity: SecretSeverity,
    /// How sure it is: `derived` where each passed a check (check digits, a checksum, what it decodes to), `heuristic` where
    /// one is told by its form alone, `exact` for what the kernel's block of arguments has.
    pub confidence: Confidence,
    /// Places that have one; one secret may stand in many.
    pub count: u64,
    /// Of those, that passed a check.
    pub checked: u64,
    /// How many differ; `null` where they are too many to tell.
    pub distinct: Option<u64>,
    /// In which kinds of regions, most first.
    pub regions: Vec<SecretRegionRow>,
    /// A few of them, at most two in each kind of region.
    pub examples: Vec<SecretExampleRow>,
    /// The command that shows the first with its value; CORE stands for the core.
    pub command: String,
}

/// How many are in regions of one kind.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretRegionRow {
    /// Kind of the regions; `null`: a note of the core, which is no memory.
    pub kind: Option<Kind>,
    /// Places in them.
    pub count: u64,
}

/// Where one is.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SecretExampleRow {
    /// Where it begins, with what it is known by; `null` in a note.
    pub address: Option<Addr>,
    /// Kind of the region; `null` in a note.
    pub kind: Option<Kind>,
    /// Which region, and where in it.
    pub detail: String,
    /// The encoding of its text.
    pub encoding: HitEncoding,
}

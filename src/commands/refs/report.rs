use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::report::{Name, PointerSource, TargetKind};

/// `refs`: who points at an address, or into what lies there.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RefsReport {
    /// The address asked for.
    pub address: Addr,
    /// What is pointed at.
    pub target: TargetRow,
    /// Words that point there, by what they are of.
    pub counts: Vec<RefCountRow>,
    /// The words, those first that tell most of the owner.
    pub refs: Vec<RefRow>,
    /// Number of all, listed or not.
    pub total: u64,
    /// Words within the target that point into it; they are in no other number.
    pub inside: u64,
    /// Bytes of memory looked at.
    pub scanned: u64,
}

/// What is pointed at.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TargetRow {
    /// Its first address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// What it is.
    pub what: TargetKind,
    /// Kind of the region it lies in; `null` where nothing is mapped.
    pub kind: Option<Kind>,
    /// Type of an object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Which region.
    pub detail: String,
}

/// Words of one sort that point at the target.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RefCountRow {
    /// Which sort, see [`RefRow::from`].
    pub from: PointerSource,
    /// How many.
    pub count: u64,
}

/// A word that points at the target.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RefRow {
    /// Where it is; `null` for a register.
    pub address: Option<Addr>,
    /// What it holds.
    pub value: Addr,
    /// Bytes from the start of the target to where it points.
    pub offset: u64,
    /// What it is of.
    pub from: PointerSource,
    /// Kind of the region it lies in.
    pub kind: Option<Kind>,
    /// The thread whose stack or register it is.
    pub thread: Option<u32>,
    /// The register, by the machine's name of it.
    pub register: Option<&'static str>,
    /// The object it is in.
    pub object: Option<Addr>,
    /// That object's type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its field or element.
    pub field: Option<Name>,
    /// In words: where in its region it is, the handle's kind.
    pub detail: String,
}

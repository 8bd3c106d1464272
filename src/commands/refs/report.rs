use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Kind;
use crate::report::{BlockOwnerRow, Name, PointerSource, TargetKind};

/// `refs`: what points at an address, or into the object or block there.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RefsReport {
    /// The requested address.
    pub address: Addr,
    /// The target of the pointers.
    pub target: TargetRow,
    /// Number of pointers by source.
    pub counts: Vec<RefCountRow>,
    /// The pointers, most informative first.
    pub refs: Vec<RefRow>,
    /// Number of all pointers, listed or not.
    pub total: u64,
    /// Number of pointers from within the target into itself; not counted elsewhere.
    pub inside: u64,
    /// Bytes of memory searched.
    pub scanned: u64,
}

/// The target of the pointers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TargetRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// What the target is.
    pub what: TargetKind,
    /// Kind of its region. `null` if nothing is mapped.
    pub kind: Option<Kind>,
    /// Type, if it is an object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Detail of its region.
    pub detail: String,
    /// Type, container and holder of a used malloc block.
    pub owner: Option<BlockOwnerRow>,
}

/// Number of pointers of one source.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RefCountRow {
    /// Source, see [`RefRow::from`].
    pub from: PointerSource,
    /// Number of pointers.
    pub count: u64,
}

/// A word that points at the target.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RefRow {
    /// Address of the word. `null` for a register.
    pub address: Option<Addr>,
    /// Its value.
    pub value: Addr,
    /// Bytes from the start of the target to the address that it points to.
    pub offset: u64,
    /// Source of the word.
    pub from: PointerSource,
    /// Kind of its region.
    pub kind: Option<Kind>,
    /// Thread of the stack or register.
    pub thread: Option<u32>,
    /// Name of the register.
    pub register: Option<&'static str>,
    /// Object that contains the word.
    pub object: Option<Addr>,
    /// Type of that object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Field or element of that object.
    pub field: Option<Name>,
    /// In words: position in its region, or kind of the handle.
    pub detail: String,
    /// In words: type, container and holder of the malloc block that contains the word. `null` for other memory.
    pub owner: Option<String>,
}

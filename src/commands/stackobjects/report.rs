use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{Name, StackRootsRow};

/// `stackobjects`: objects that stacks refer to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackObjectsReport {
    /// The references, by thread and address.
    pub objects: Vec<StackObjectRow>,
    /// How the stacks were read.
    pub stacks: StackRootsRow,
    /// Roots that could not be read.
    pub not_read: Vec<String>,
}

/// A reference on a stack, or in a register.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackObjectRow {
    /// The thread. `null` if unknown.
    pub tid: Option<u32>,
    /// Address of the reference. For a register, the stack pointer of its frame.
    pub address: Addr,
    /// Register that has the reference. `null` if it is in memory.
    pub register: Option<&'static str>,
    /// Whether the runtime's tables show that this is a reference. Otherwise a word of the stack has the address of the
    /// object, which it may have from an earlier call.
    pub precise: bool,
    /// Method of the frame. `null` if unknown.
    pub method: Option<String>,
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its size in bytes. `null` if it could not be read.
    pub size: Option<u64>,
}

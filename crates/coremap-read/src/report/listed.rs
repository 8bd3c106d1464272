//! Objects in lists.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// An object in a list.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ListedObject {
    /// Start address.
    pub address: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Size in bytes.
    pub size: u64,
    /// Generation, as the runtime names it.
    pub generation: &'static str,
    /// Index of its GC heap.
    pub heap: u32,
}

//! Objects in lists.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// An object in a list.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ListedObject {
    /// Where it begins.
    pub address: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its size.
    pub size: u64,
    /// Generation that it is in, in the runtime's own words.
    pub generation: &'static str,
    /// Number of its GC heap.
    pub heap: u32,
}

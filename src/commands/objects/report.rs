use schemars::JsonSchema;
use serde::Serialize;

use crate::report::ListedObject;

/// `objects`: objects of the requested types.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectsReport {
    /// Objects, by address.
    pub objects: Vec<ListedObject>,
    /// Bytes of the listed objects.
    pub size: u64,
    /// Number of objects not listed.
    pub more: u64,
}

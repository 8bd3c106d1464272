use schemars::JsonSchema;
use serde::Serialize;

use crate::report::ListedObject;

/// `objects`: objects of the types asked for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectsReport {
    /// By address.
    pub objects: Vec<ListedObject>,
    /// Bytes of those listed.
    pub size: u64,
    /// How many more there are.
    pub more: u64,
}

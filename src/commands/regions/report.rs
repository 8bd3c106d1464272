use schemars::JsonSchema;
use serde::Serialize;

use crate::report::RegionRow;

/// `regions` and `maddress`: the whole memory map.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RegionsReport {
    /// Regions by start (or size, if requested). They are disjoint and cover all mappings.
    pub regions: Vec<RegionRow>,
}

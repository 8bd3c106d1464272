use schemars::JsonSchema;
use serde::Serialize;

use crate::report::RegionRow;

/// `regions` and `maddress`: the whole map.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RegionsReport {
    /// Regions by start (or size, if asked): disjoint, covering the base.
    pub regions: Vec<RegionRow>,
}

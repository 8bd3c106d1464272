//! Sums of objects.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// A sum of objects.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectsRow {
    /// Number.
    pub objects: u64,
    /// Bytes.
    pub size: u64,
}

impl ObjectsRow {
    /// These and `objects` more of `size` bytes.
    pub fn plus(self, objects: u64, size: u64) -> ObjectsRow {
        ObjectsRow { objects: self.objects.saturating_add(objects), size: self.size.saturating_add(size) }
    }
}

/// Objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TypeRow {
    /// Its MethodTable.
    pub method_table: Addr,
    /// Its name.
    #[serde(rename = "type")]
    pub name: String,
    /// Name of its runtime, where a core has several with a heap; else `null`.
    pub runtime: Option<Name>,
    /// Number of objects.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
    /// How many of them the collector tracks, where it does not track all (CPython); `null` elsewhere.
    pub tracked: Option<u64>,
    /// By generation, where there are any.
    pub generations: Vec<GenerationRow>,
}

/// Objects of one type in one generation.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct GenerationRow {
    /// In the runtime's own words; .NET: gen0, gen1, gen2, loh, poh, frozen or ephemeral.
    pub generation: &'static str,
    /// Number of objects.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
}

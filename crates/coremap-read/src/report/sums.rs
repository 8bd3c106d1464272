//! Sums of objects.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// Number and size of objects.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectsRow {
    /// Number of objects.
    pub objects: u64,
    /// Bytes.
    pub size: u64,
}

impl ObjectsRow {
    /// Returns the sum with `objects` more of `size` bytes.
    pub fn plus(self, objects: u64, size: u64) -> ObjectsRow {
        ObjectsRow { objects: self.objects.saturating_add(objects), size: self.size.saturating_add(size) }
    }
}

/// Objects of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TypeRow {
    /// Address of its MethodTable.
    pub method_table: Addr,
    /// Name.
    #[serde(rename = "type")]
    pub name: Box<str>,
    /// Name of its runtime, if the core has several with a heap; otherwise `null`.
    pub runtime: Option<Name>,
    /// Script with its constructor or function (V8). `null` in runtimes with unique type names, and if unknown.
    pub script: Option<Box<str>>,
    /// Line in that script.
    pub line: Option<u32>,
    /// Isolate that has the type (V8). `null` if all share it.
    pub isolate: Option<Box<str>>,
    /// Number of objects.
    pub count: u64,
    /// Bytes of the objects.
    pub size: u64,
    /// Number of objects that the collector tracks, if it does not track all (CPython). Otherwise `null`.
    pub tracked: Option<u64>,
    /// How the type is known, if objects do not have their type: `exact`, `held` by a typed pointer, or by its `shape`;
    /// the weakest of its objects. Otherwise `null`.
    pub grade: Option<&'static str>,
    /// Objects by generation, if there are generations.
    pub generations: Box<[GenerationRow]>,
}

/// Objects of one type in one generation.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct GenerationRow {
    /// Generation, as the runtime names it; .NET: gen0, gen1, gen2, loh, poh, frozen or ephemeral.
    pub generation: &'static str,
    /// Number of objects.
    pub count: u64,
    /// Bytes of the objects.
    pub size: u64,
}

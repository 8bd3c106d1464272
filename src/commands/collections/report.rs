use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// `collections`: live collections whose elements are in an array, such as lists and hash tables. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectionsReport {
    /// Sums by type, most empty bytes first.
    pub types: Vec<CollectionTypeRow>,
    /// Sum of all types.
    pub total: CollectionSums,
    /// Fields and variables that refer to collections, most empty bytes first.
    pub holders: Vec<CollectionHolderRow>,
    /// Collections with most empty bytes.
    pub largest: Vec<CollectionRow>,
    /// Number of live collections whose fields could not be read. They are in no sum.
    pub unreadable: u64,
    /// Roots and references that could not be read. Collections that only these retain are not counted.
    pub not_read: Vec<String>,
    /// Runtimes of the process whose collections are not read.
    pub unread: Vec<String>,
}

/// Sums over several collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CollectionSums {
    /// Number of collections.
    pub count: u64,
    /// Number of them without an element.
    pub empty: u64,
    /// Number of elements.
    pub elements: u64,
    /// Number of slots of their arrays.
    pub slots: u64,
    /// Bytes of their arrays.
    pub bytes: u64,
    /// Bytes of slots without an element. In a hash table with chains, several elements may share a slot: these bytes are
    /// then a lower bound.
    pub empty_bytes: u64,
}

/// Collections of one type.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectionTypeRow {
    /// Name of the type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Address of the type's structure in the runtime.
    pub method_table: Addr,
    /// Sums.
    #[serde(flatten)]
    pub sums: CollectionSums,
    /// Elements as a share of slots, from 0 to 1. `null` without slots.
    pub fill: Option<f64>,
}

/// Collections that one field or variable refers to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectionHolderRow {
    /// Field of the nearest object of the program that retains them, or static variable, or kind of root.
    pub holder: String,
    /// Type of the collections that have most empty bytes.
    #[serde(rename = "type")]
    pub name: Name,
    /// Sums.
    #[serde(flatten)]
    pub sums: CollectionSums,
}

/// A collection.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectionRow {
    /// Its object.
    pub object: Addr,
    /// Name of the type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Number of elements.
    pub elements: u64,
    /// Number of slots of its array.
    pub slots: u64,
    /// Bytes of its array.
    pub bytes: u64,
    /// Bytes of slots without an element.
    pub empty_bytes: u64,
    /// What refers to it, as in `holders`.
    pub holder: Option<String>,
}

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::{Addr, AddrRange};

/// `heapstat`: objects by type, as SOS `dumpheap -stat` counts them. Sizes in
/// bytes, not rounded up to where the next object begins.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HeapStatReport {
    /// By size, biggest first. Free space is the type `Free`.
    pub types: Vec<TypeRow>,
    /// Of all types listed.
    pub total: ObjectsRow,
    /// Of free space, whatever types were asked for.
    pub free: ObjectsRow,
    /// Free blocks of 0.5 MB and more, by address.
    pub fragmentation: Vec<FreeBlockRow>,
    /// Room that allocators own and have not used.
    pub unused: u64,
    /// The dump was taken while a collection moved objects.
    pub in_progress: bool,
    /// What could not be walked; nothing of it is in the sums.
    pub lost: LostRow,
    /// Strings of equal content, where `--strings` asked for them.
    pub strings: Option<StringsRow>,
}

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
    /// Number of objects.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
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

/// A large piece of dead space.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FreeBlockRow {
    /// Where.
    pub address: Addr,
    /// Its size.
    pub size: u64,
    /// Number of its GC heap.
    pub heap: u32,
    /// Generation, in the runtime's own words.
    pub generation: &'static str,
    /// The object behind it; `null` at the end of its segment.
    pub next: Option<Addr>,
    /// That object's type.
    pub next_type: Option<String>,
}

/// What could not be walked.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LostRow {
    /// Bytes in all.
    pub bytes: u64,
    /// Number of places.
    pub count: u64,
    /// The first of them.
    pub places: Vec<LossRow>,
}

/// A place without an object that is known.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LossRow {
    /// Where.
    #[serde(flatten)]
    pub range: AddrRangeRow,
    /// Why.
    pub reason: String,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct AddrRangeRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Bytes.
    pub size: u64,
}

impl From<AddrRange> for AddrRangeRow {
    fn from(range: AddrRange) -> AddrRangeRow {
        AddrRangeRow { start: range.start, end: range.end, size: range.len() }
    }
}

/// Strings by content.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StringsRow {
    /// All strings.
    pub total: ObjectsRow,
    /// Different contents.
    pub distinct: u64,
    /// Bytes that equal strings take beyond one of each.
    pub wasted: u64,
    /// Strings whose content is not in the core.
    pub unreadable: u64,
    /// Those that waste most, the worst first.
    pub duplicates: Vec<DuplicateRow>,
}

/// A content that several strings have.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DuplicateRow {
    /// Number of strings.
    pub count: u64,
    /// Characters (UTF-16 units) of each.
    pub length: u32,
    /// Bytes that they take beyond one of them.
    pub wasted: u64,
    /// One of them.
    pub example: Addr,
    /// Its text, or the beginning of it.
    pub value: String,
    /// Whether `value` is only the beginning.
    pub cut: bool,
}

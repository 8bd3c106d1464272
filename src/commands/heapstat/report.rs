use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{LostRow, ObjectsRow, TypeRow};

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

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{LostRow, ObjectsRow, TypeRow};

/// `heapstat`: objects by type, as SOS `dumpheap -stat` counts them. Sizes in bytes, without alignment padding.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HeapStatReport {
    /// Types by size, largest first. Free space is the type `Free`.
    pub types: Vec<TypeRow>,
    /// Sum over all listed types.
    pub total: ObjectsRow,
    /// Free space, regardless of the requested types.
    pub free: ObjectsRow,
    /// Free blocks of 0.5 MB and more, by address.
    pub fragmentation: Vec<FreeBlockRow>,
    /// Bytes in allocation buffers that are not used yet.
    pub unused: u64,
    /// Whether the dump was taken during a garbage collection.
    pub in_progress: bool,
    /// Memory that could not be walked; in no sum.
    pub lost: LostRow,
    /// Strings of equal content, with `--strings`.
    pub strings: Option<StringsRow>,
    /// Which objects were counted, with `--live` or `--dead`. `null`: all.
    pub reach: Option<ReachRow>,
}

/// Objects that were counted, by whether roots reach them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ReachRow {
    /// Whether the live objects were counted. Otherwise the dead ones.
    pub live: bool,
    /// Roots and references that could not be read. Objects that only these retain count as dead.
    pub not_read: Vec<String>,
}

/// A large block of free space.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FreeBlockRow {
    /// Start address.
    pub address: Addr,
    /// Size in bytes.
    pub size: u64,
    /// Index of its GC heap.
    pub heap: u32,
    /// Generation, as the runtime names it.
    pub generation: &'static str,
    /// The object after it. `null` at the end of the segment.
    pub next: Option<Addr>,
    /// Type of that object.
    pub next_type: Option<String>,
}

/// Strings by content.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StringsRow {
    /// All strings, also those that nothing references any more, with their contents. In Java the contents are arrays
    /// beside the strings; an array that several strings share counts once.
    pub total: ObjectsRow,
    /// Number of different contents.
    pub distinct: u64,
    /// Bytes of all equal strings except one of each: at most the bytes of `total`.
    pub wasted: u64,
    /// Number of strings whose content is not in the core.
    pub unreadable: u64,
    /// Contents that waste most, largest first.
    pub duplicates: Vec<DuplicateRow>,
}

/// A content that several strings have.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DuplicateRow {
    /// Number of strings.
    pub count: u64,
    /// Characters (UTF-16 units) of each.
    pub length: u32,
    /// Bytes of all but one of them.
    pub wasted: u64,
    /// Address of one of them.
    pub example: Addr,
    /// Text, or its beginning.
    pub value: String,
    /// Whether `value` is only the beginning.
    pub cut: bool,
}

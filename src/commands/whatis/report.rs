use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::commands::ip2method::IpRow;
use crate::map::{Confidence, Kind};
use crate::report::{BlockOwnerRow, BufferMemory, ClusterContent, Name, PointerSource, RegionRow};

/// `whatis`: everything known about addresses. Fields outside `results` describe the first address.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WhatisReport {
    /// The first address.
    #[serde(flatten)]
    pub first: WhatisRow,
    /// One result per address, in the order given, including the first.
    pub results: Vec<WhatisRow>,
}

/// Everything known about one address.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WhatisRow {
    /// The address.
    pub address: Addr,
    /// Region that contains it. `null` if nothing is mapped.
    pub region: Option<RegionRow>,
    /// Bytes from the start of the region.
    pub offset: Option<u64>,
    /// Evidence for the label.
    pub evidence: Option<String>,
    /// Section of a module, thread and distance from its SP, …
    pub place: Option<String>,
    /// Code at the address: a method, a native symbol, a stub.
    pub code: Option<String>,
    /// Managed method at the address, as in `ip2method`.
    pub method: Option<IpRow>,
    /// Managed object that contains it.
    pub object: Option<InObjectRow>,
    /// Type or method that a runtime structure at this address describes.
    pub descriptor: Option<DescriptorRow>,
    /// GC handle that contains it.
    pub handle: Option<HandleAtRow>,
    /// Stack frame that contains it.
    pub frame: Option<FrameAtRow>,
    /// malloc block that contains it.
    pub block: Option<BlockRow>,
    /// Block of a runtime's small-block allocator that contains it.
    pub small_block: Option<SmallBlockRow>,
    /// Managed object with a field that points to this native memory. Searched for addresses in used malloc blocks, and
    /// in mappings that a runtime attributes to an object.
    pub owner: Option<BufferOwnerRow>,
    /// Content of the memory around it, if it has no known owner.
    pub content: Option<ContentAtRow>,
    /// Rejected claims on this address.
    pub losers: Vec<ClaimRow>,
    /// Whether its byte can be read, or why not.
    pub readable: String,
    /// Nearest regions, if nothing is mapped.
    pub neighbours: Vec<RegionRow>,
    /// Bytes from the address on in hexadecimal, if requested.
    pub bytes: Option<String>,
    /// Text that these bytes begin with: at least four characters in UTF-8, or Latin letters in UTF-16.
    pub text: Option<String>,
}

/// The managed object that contains an address.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct InObjectRow {
    /// Start of the object.
    pub address: Addr,
    /// Type. `Free` for the space between objects.
    #[serde(rename = "type")]
    pub name: Name,
    /// Address by which the runtime identifies the type: a MethodTable.
    pub method_table: Option<Addr>,
    /// Size in bytes.
    pub size: u64,
    /// Generation, as the runtime names it.
    pub generation: &'static str,
    /// Bytes from its start to the address.
    pub offset: u64,
    /// Field or element at the address. `null` at the object's start, and if there is none.
    pub field: Option<Name>,
    /// Text of a string.
    pub value: Option<String>,
}

/// A runtime structure that describes a type or a method.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DescriptorRow {
    /// Kind, as the runtime names it: MethodTable, MethodDesc.
    pub kind: &'static str,
    /// Name of the type or method.
    pub name: String,
    /// File name of the module that defines it.
    pub module: String,
}

/// A GC handle.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HandleAtRow {
    /// Start address.
    pub address: Addr,
    /// Kind, as the runtime names it.
    pub kind: &'static str,
    /// Object that it refers to.
    pub object: Addr,
    /// Type of that object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Object that a dependent handle keeps alive with it.
    pub secondary: Option<Addr>,
    /// Type of that object.
    pub secondary_type: Option<Name>,
}

/// A stack frame.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FrameAtRow {
    /// The thread.
    pub thread: u32,
    /// Index of the frame in `threads`; 0 is the innermost.
    pub index: u64,
    /// Stack pointer.
    pub sp: Addr,
    /// Stack pointer of the caller, where the frame ends.
    pub end: Addr,
    /// Code address.
    pub ip: Addr,
    /// The code there.
    pub code: Option<String>,
}

/// Owner of native memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BufferOwnerRow {
    /// Kind of owner: an object.
    pub kind: PointerSource,
    /// Start of the object.
    pub address: Addr,
    /// Type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Field that points to the memory.
    pub field: Option<Name>,
    /// The memory, if the runtime frees it with the object. `null` if a word of the object points there and nothing
    /// more is known.
    pub buffer: Option<BufferRow>,
}

/// Native memory that an object owns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BufferRow {
    /// Start address.
    pub start: Addr,
    /// Size in bytes.
    pub size: u64,
    /// Source of the memory.
    pub memory: BufferMemory,
}

/// Content of the memory around an address.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContentAtRow {
    /// Start of the range of equal content.
    pub start: Addr,
    /// End of the range.
    pub end: Addr,
    /// Whether both ends were found. At most 1 MiB on either side is checked.
    pub whole: bool,
    /// Content of nearly all of it, in words.
    pub content: String,
    /// Content of the page of the address, in words.
    pub page: String,
}

/// A rejected claim on the address.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Claimed kind.
    pub kind: Kind,
    /// Detail.
    pub detail: String,
    /// Confidence.
    pub confidence: Confidence,
    /// The evidence for it.
    pub evidence: String,
}

/// A malloc block.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockRow {
    /// Address that malloc returned.
    pub start: Addr,
    /// Usable bytes.
    pub size: u64,
    /// Whether it is used.
    pub used: bool,
    /// Blocks of equal size and content. `null` for a free block.
    pub cluster: Option<AlikeRow>,
    /// Type, container and holder. `null` for a free block, and for one that a managed object owns.
    pub owner: Option<BlockOwnerRow>,
}

/// A block of a runtime's small-block allocator, in a pool of blocks of one size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SmallBlockRow {
    /// Name of the allocator: `obmalloc`.
    pub allocator: &'static str,
    /// Start of the block.
    pub start: Addr,
    /// Size in bytes of each block in its pool.
    pub size: u64,
    /// Whether it is used.
    pub used: bool,
    /// Start of its pool.
    pub pool: Addr,
    /// Start of the arena of that pool.
    pub arena: Addr,
}

/// Used blocks of equal size and content, as `malloc` groups them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AlikeRow {
    /// Size of the chunk in bytes.
    pub size: u64,
    /// Number of used blocks, including this one.
    pub count: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
    /// Common content besides the size.
    pub kind: ClusterContent,
    /// The word that all of them begin with. `null` if it could not be read.
    pub first_word: Option<Addr>,
    /// The byte that fills the block; the first 4 KiB are checked.
    pub fill: Option<u8>,
    /// Symbol that the first word points to, if it points into a module.
    pub symbol: Option<String>,
    /// Category that a managed runtime recorded.
    pub category: Option<String>,
}

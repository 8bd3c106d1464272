use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::commands::ip2method::IpRow;
use crate::map::{Confidence, Kind};
use crate::report::{BufferMemory, ClusterContent, Name, PointerSource, RegionRow};

/// `whatis`: everything known of addresses. What stands beside `results` is of the first of them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WhatisReport {
    /// The first address.
    #[serde(flatten)]
    pub first: WhatisRow,
    /// One for each address, in the order given; the first is among them.
    pub results: Vec<WhatisRow>,
}

/// Everything known of one address.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WhatisRow {
    /// The address.
    pub address: Addr,
    /// The region that holds it; `null` where nothing is mapped.
    pub region: Option<RegionRow>,
    /// Bytes from the start of the region.
    pub offset: Option<u64>,
    /// Evidence for the label.
    pub evidence: Option<String>,
    /// Section of a module, thread and distance from its SP, …
    pub place: Option<String>,
    /// The code it is of: a method, a native symbol, a stub.
    pub code: Option<String>,
    /// That of a managed method, as `ip2method` tells it.
    pub method: Option<IpRow>,
    /// The managed object that it is in.
    pub object: Option<InObjectRow>,
    /// The type or method that a runtime describes from there on.
    pub descriptor: Option<DescriptorRow>,
    /// The GC handle that it is in.
    pub handle: Option<HandleAtRow>,
    /// The frame of a thread's stack that it is in.
    pub frame: Option<FrameAtRow>,
    /// The block of malloc that it is in.
    pub block: Option<BlockRow>,
    /// The block of a runtime's own allocator that it is in.
    pub small_block: Option<SmallBlockRow>,
    /// The managed object that holds this native memory: a field of it leads there. Looked for where the
    /// address is in a used block of malloc, and in mappings that a runtime knows to be an object's.
    pub owner: Option<BufferOwnerRow>,
    /// What fills memory there, where nobody claims it.
    pub content: Option<ContentAtRow>,
    /// Claims that lost here.
    pub losers: Vec<ClaimRow>,
    /// Whether its byte can be read, or why not.
    pub readable: String,
    /// Nearest regions, where nothing is mapped.
    pub neighbours: Vec<RegionRow>,
    /// Bytes from the address on, in hexadecimal, where that was asked for.
    pub bytes: Option<String>,
    /// The text that these begin with: four characters or more of UTF-8, or of letters of Latin script as UTF-16.
    pub text: Option<String>,
}

/// The managed object that an address is in.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct InObjectRow {
    /// Where the object begins.
    pub address: Addr,
    /// Its type; `Free` for the space between objects.
    #[serde(rename = "type")]
    pub name: Name,
    /// What the runtime knows its type by: a MethodTable.
    pub method_table: Option<Addr>,
    /// Its bytes.
    pub size: u64,
    /// Generation that it is in, in the runtime's own words.
    pub generation: &'static str,
    /// Bytes from its start to the address.
    pub offset: u64,
    /// The field or element at the address; `null` at the object's start, and where it has none there.
    pub field: Option<Name>,
    /// Text of a string.
    pub value: Option<String>,
}

/// What a runtime keeps of a type or a method.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DescriptorRow {
    /// What it is, in the runtime's own words: MethodTable, MethodDesc.
    pub kind: &'static str,
    /// Name of the type or method.
    pub name: String,
    /// File name of the module that defines it.
    pub module: String,
}

/// A GC handle.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HandleAtRow {
    /// Where it begins.
    pub address: Addr,
    /// Its kind, in the runtime's own words.
    pub kind: &'static str,
    /// The object that it leads to.
    pub object: Addr,
    /// That object's type.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// The object that a dependent handle keeps with it.
    pub secondary: Option<Addr>,
    /// That object's type.
    pub secondary_type: Option<Name>,
}

/// A frame of a stack.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FrameAtRow {
    /// The thread.
    pub thread: u32,
    /// The frame's number in `threads`, that of the latest call 0.
    pub index: u64,
    /// Its stack pointer.
    pub sp: Addr,
    /// The caller's stack pointer, where it ends.
    pub end: Addr,
    /// Where its code is.
    pub ip: Addr,
    /// What code that is.
    pub code: Option<String>,
}

/// What holds native memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BufferOwnerRow {
    /// What it is: an object.
    pub kind: PointerSource,
    /// Where the object begins.
    pub address: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its field that leads to the memory.
    pub field: Option<Name>,
    /// The memory, where the runtime knows that the object owns it: when the object goes, it does. `null` where
    /// a word of the object leads there and nothing more is known.
    pub buffer: Option<BufferRow>,
}

/// Native memory that an object owns.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BufferRow {
    /// Where it begins.
    pub start: Addr,
    /// Its bytes.
    pub size: u64,
    /// Where it came from.
    pub memory: BufferMemory,
}

/// What fills memory around an address.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContentAtRow {
    /// Where it begins: what stands before is filled with something else.
    pub start: Addr,
    /// Where it ends.
    pub end: Addr,
    /// Whether both are known: no more than 1 MiB on either side of the address is looked at.
    pub whole: bool,
    /// What nearly all of it is, in words.
    pub content: String,
    /// What fills the page of the address, in words.
    pub page: String,
}

/// A claim on the address that did not win.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimRow {
    /// First address.
    pub start: Addr,
    /// First address after it.
    pub end: Addr,
    /// Kind it claims.
    pub kind: Kind,
    /// Which one.
    pub detail: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// Its evidence.
    pub evidence: String,
}

/// A block of malloc.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockRow {
    /// What malloc returned.
    pub start: Addr,
    /// Bytes that the program can use.
    pub size: u64,
    /// Whether it is in use.
    pub used: bool,
    /// Blocks like it; `null` for a free one.
    pub cluster: Option<AlikeRow>,
}

/// A block of an allocator that a runtime has of its own, in a pool of blocks of one size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SmallBlockRow {
    /// What the runtime calls the allocator: `obmalloc`.
    pub allocator: &'static str,
    /// Where the block begins.
    pub start: Addr,
    /// Bytes of it, and of all others in its pool.
    pub size: u64,
    /// Whether it is in use.
    pub used: bool,
    /// Where its pool begins.
    pub pool: Addr,
    /// Where the arena of that begins.
    pub arena: Addr,
}

/// Used blocks that are alike, as `malloc` groups them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AlikeRow {
    /// Size of the chunk in bytes.
    pub size: u64,
    /// Blocks in use, this one among them.
    pub count: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
    /// What they have in common beside their size.
    pub kind: ClusterContent,
    /// The word they all begin with; `null` where it could not be read.
    pub first_word: Option<Addr>,
    /// The byte that all of the block is filled with, as far as it was looked at (4 KiB).
    pub fill: Option<u8>,
    /// Where the first word points to, if into a module.
    pub symbol: Option<String>,
    /// What a managed runtime noted that they are for.
    pub category: Option<String>,
}

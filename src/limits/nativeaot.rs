//! Caps on what a NativeAOT runtime says of itself.

/// Entries of DotNetRuntimeDebugHeader: 92 in 8.0 and 9.0.
pub const MAX_HEADER_ENTRIES: u64 = 1024;

/// Bytes of a name there: the longest has 26.
pub const MAX_HEADER_NAME: usize = 64;

/// Threads of the runtime's list.
pub const MAX_AOT_THREADS: usize = 1 << 17;

/// Nodes of lists that a thread keeps references in: exceptions, statics, frames of the runtime's own.
pub const MAX_AOT_THREAD_NODES: usize = 1 << 20;

/// References that one such frame has.
pub const MAX_AOT_FRAME_REFS: u64 = 1 << 16;

/// Sections of the module's own header: 34 in 9.0.
pub const MAX_AOT_SECTIONS: u64 = 512;

/// Bytes of one of its sections: the metadata of a program of 100 MB has some 10 MB.
pub const MAX_AOT_SECTION: u64 = 256 << 20;

/// Types that the map of types tells.
pub const MAX_AOT_TYPES: usize = 1 << 20;

/// Pairs of words in its module's data that may be the bounds of the heap: there are four in 9.0.
pub const MAX_BOOKKEEPING_TRIES: usize = 1 << 12;

/// Bytes of one name in the metadata: compilers allow 1,023.
pub const MAX_METADATA_NAME: usize = 1024;

/// Types that the name of one is made of.
pub const MAX_NAME_PARTS: u32 = 64;

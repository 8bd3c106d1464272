//! Allocators and runtimes that are recognised and not walked.

/// Words of one image's writable data that are taken for pointers into memory that nobody claims: the
/// data of an allocator has thousands.
pub const MAX_FOREIGN_POINTERS: usize = 1 << 16;

/// Aligned places at which one recogniser looks for a page of its runtime's: 4 TiB of Ruby's.
pub const MAX_FOREIGN_PLACES: usize = 1 << 26;

/// Structures that one recogniser reads: one for some KiB of memory.
pub const MAX_FOREIGN_STEPS: usize = 32 << 20;

/// Extents of jemalloc whose blocks are looked at, at some 200 bytes of ours each: 16 GiB of the smallest.
pub const MAX_FOREIGN_EXTENTS: usize = 4 << 20;

/// Ranges of memory that one recogniser names, neighbours joined.
pub const MAX_FOREIGN_RANGES: usize = 1 << 20;

/// Bytes of an arena's description in which Go's table of spans is looked for: before 1.20 there are 2 MiB of
/// bitmap before it.
pub const MAX_GO_ARENA_HEADER: u64 = 3 << 20;

/// Tables that one image's pointers lead to and that are tried as a leaf of a page map.
pub const MAX_PAGE_MAP_LEAVES: usize = 4096;

/// Largest mapping that is the main thread's TLS because its control block lies in it: the dynamic linker takes
/// 2 to 8 pages in what was seen. In a larger one only the control block's own page is.
pub const MAX_TLS_MAPPING: u64 = 64 << 10;

/// Ranges of memory at whose start a runtime's page is looked for where no module is named for the runtime: each is a
/// page of the file that is read for nothing in most cores.
pub const MAX_FOREIGN_STARTS: usize = 64;

/// Bytes in which descriptions of V8's pages are looked for by the pages' addresses: with its sandbox only. A scan of some
/// tenths of a second.
pub const MAX_V8_SEARCH: u64 = 512 << 20;

/// Roots of PartitionAlloc that are looked at: a browser has some ten. Each is a read of some pages.
pub const MAX_PARTITIONS: usize = 1024;

/// Parts of the address space of one leaf each in which a page map's pages are looked for: 2 TiB where leaves are small.
pub const MAX_PAGE_MAP_WINDOWS: usize = 1 << 14;

/// Pairs of a table and a part of the address space that are tried in one image: each is a read or two. Some thousands in
/// what was seen.
pub const MAX_PAGE_MAP_TRIES: usize = 1 << 20;

//! Limits for allocators and runtimes that are recognised but not walked.

/// Maximum number of words in one image's writable data taken for pointers into unclaimed memory. An allocator's data
/// has thousands.
pub const MAX_FOREIGN_POINTERS: usize = 1 << 16;

/// Maximum number of aligned addresses at which one recogniser looks for a page of its runtime: 4 TiB for Ruby.
pub const MAX_FOREIGN_PROBES: usize = 1 << 26;

/// Maximum number of structures read by one recogniser: one per some KiB of memory.
pub const MAX_FOREIGN_STEPS: usize = 32 << 20;

/// Maximum number of jemalloc extents whose blocks are read, at about 200 bytes of our memory each: 16 GiB of the
/// smallest extents.
pub const MAX_FOREIGN_EXTENTS: usize = 4 << 20;

/// Maximum number of ranges named by one recogniser, after joining neighbours.
pub const MAX_FOREIGN_RANGES: usize = 1 << 20;

/// Maximum bytes of an arena's description searched for Go's table of spans. Before Go 1.20, 2 MiB of bitmap precede
/// it.
pub const MAX_GO_ARENA_HEADER: u64 = 3 << 20;

/// Maximum size of a mapping that is the main thread's TLS because it contains the control block. The dynamic linker
/// was seen to take 2 to 8 pages. In a larger mapping, only the page of the control block is TLS.
pub const MAX_TLS_MAPPING: u64 = 64 << 10;

/// Maximum number of ranges whose start is checked for a runtime's page if no module is named like the runtime. Each
/// check reads one page of the file, in vain for most cores.
pub const MAX_FOREIGN_STARTS: usize = 64;

/// Maximum bytes searched for V8's page descriptions by the addresses of the pages, which is needed with its sandbox
/// only. Takes some tenths of a second.
pub const MAX_V8_SEARCH: u64 = 512 << 20;

/// Maximum number of PartitionAlloc roots read. A browser has about ten. Each takes a few pages.
pub const MAX_PARTITIONS: usize = 1024;

/// Maximum number of address space windows, of one leaf each, in which a page map's pages are searched: 2 TiB if leaves
/// are small.
pub const MAX_PAGE_MAP_WINDOWS: usize = 1 << 14;

/// Maximum number of pairs of a pointer and a window for which an upper level of a page map is considered, per image
/// and shape. Takes some tens of milliseconds.
pub const MAX_PAGE_MAP_TRIES: usize = 1 << 18;

/// Maximum number of short reads with which upper levels of page maps are tried, per image and shape: some
/// milliseconds. Real maps take some hundred.
pub const MAX_PAGE_MAP_STEPS: u64 = 1 << 15;

/// Maximum number of short reads that find the leaves of an upper level with proven structures. Takes two or three for
/// each GiB.
pub const MAX_PROVEN_PAGE_MAP_STEPS: u64 = 1 << 18;

/// Maximum number of contexts of user-level threads.
pub const MAX_FIBERS: usize = 1 << 20;

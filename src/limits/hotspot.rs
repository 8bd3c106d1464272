//! HotSpot: its tables of itself, classes, spaces of its heap, code.

/// Rows of one of the VM's tables (vmStructs): JDK 11 has some 3,000 fields, 25 some 600.
pub const MAX_VM_TABLE_ROWS: usize = 1 << 15;

/// Bytes of a name in the VM's tables: C++ types of templates are the longest, some 100.
pub const MAX_VM_NAME: usize = 512;

/// Classes above one in the VM's tables: `JavaThread` has three.
pub const MAX_VM_SUPERCLASSES: usize = 32;

/// Flags of the VM: JDK 25 has some 1,500.
pub const MAX_VM_FLAGS: u64 = 1 << 14;

/// Bytes of a Symbol: its length has 16 bits.
pub const MAX_SYMBOL_BYTES: usize = 1 << 16;

/// Classes met; application servers have some 200,000.
pub const MAX_KLASSES: usize = 1 << 21;

/// Class loaders that are followed; each lambda of JDK 11 has one of its own.
pub const MAX_CLASS_LOADERS: usize = 1 << 21;

/// Superclasses of a class, from it to `java.lang.Object`: 40 are many.
pub const MAX_JAVA_SUPERCLASSES: usize = 1 << 10;

/// Fields that one class declares: their number has 16 bits, and the VM adds some.
pub const MAX_JAVA_FIELDS: usize = (1 << 16) + 64;

/// Runs of references in an instance (OopMapBlock): one for each superclass at most.
pub const MAX_OOP_MAP_BLOCKS: u64 = 1 << 12;

/// Regions of a heap: G1 has 2,048 by default, and of 1 MiB each with a heap of terabytes some millions.
pub const MAX_HEAP_REGIONS: u64 = 1 << 22;

/// Granules of ZGC's heap (2 MiB each) in its table of pages.
pub const MAX_ZGC_GRANULES: u64 = 1 << 26;

/// Java threads.
pub const MAX_JAVA_THREADS: u64 = 1 << 20;

/// Heaps of the code cache: three, or one.
pub const MAX_CODE_HEAPS: u64 = 16;

/// Blobs of stub routines: JDK 17 has two, 25 some ten.
pub const MAX_STUB_BLOBS: usize = 1 << 10;

/// Bytes of an object of the VM that is looked through word by word: its heap is the largest, some 2 KiB.
pub const MAX_VM_OBJECT: u64 = 4 << 10;

/// Bytes of libjvm's writable data that are looked through: some 2 MiB.
pub const MAX_VM_DATA: u64 = 16 << 20;

/// Direct and mapped buffers; a Netty server has some thousands.
pub const MAX_OWNED_BUFFERS: usize = 1 << 22;

/// Categories of Native Memory Tracking: JDK 25 has 28.
pub const MAX_NMT_CATEGORIES: usize = 128;

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

/// Heaps of the code cache: the VM makes four at most.
pub const MAX_CODE_HEAPS: u64 = 64;

/// Blocks of one heap of the code cache: it has 2 GiB at most, and the smallest code of a method takes some 600 bytes.
pub const MAX_CODE_HEAP_BLOCKS: usize = 1 << 22;

/// Parts of the interpreter: 271 in JDK 17.
pub const MAX_CODELETS: u64 = 1 << 14;

/// Methods that are inlined into one another at one place: `-XX:MaxInlineLevel` is 15, but chains of method handles do not
/// count for it.
pub const MAX_INLINED_SCOPES: usize = 1 << 10;

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

/// Blocks of JNI's local handles (32 each), of all threads together.
pub const MAX_JNI_BLOCKS: usize = 1 << 20;

/// Blocks of an OopStorage (64 handles each).
pub const MAX_OOP_STORAGE_BLOCKS: u64 = 1 << 20;

/// Bytes of libjvm's variables that are looked through: they have some 2 MiB.
pub const MAX_VM_DATA: u64 = 64 << 20;

/// Heaps of the code cache: the VM makes four at most.
pub const MAX_CODE_HEAPS: u64 = 64;

/// Blocks of one heap of the code cache: it has 2 GiB at most, and the smallest code of a method takes some 600 bytes.
pub const MAX_CODE_HEAP_BLOCKS: usize = 1 << 22;

/// Parts of the interpreter: 271 in JDK 17.
pub const MAX_CODELETS: u64 = 1 << 14;

/// Methods that are inlined into one another at one place: `-XX:MaxInlineLevel` is 15, but chains of method handles do not
/// count for it.
pub const MAX_INLINED_SCOPES: usize = 1 << 10;

/// Characters of a thread's name that are read.
pub const MAX_JAVA_THREAD_NAME: usize = 512;

/// Java threads that are asked in which slot of a control block the VM keeps them: all have the same.
pub const MAX_SLOT_WITNESSES: usize = 4;

/// Bytes of a thread's control block that are looked through: in glibc 2.36 `struct pthread` has 2,304 bytes.
pub const MAX_CONTROL_BLOCK: u64 = 0x900;

/// Places on one stack where Java was left for native code. Each takes some hundred bytes of stack.
pub const MAX_JAVA_ANCHORS: usize = 1 << 12;

/// Locks that one thread holds and that are told.
pub const MAX_HELD_LOCKS: usize = 1 << 10;

/// Entries of a LockStack: `LockStack::CAPACITY` is 8.
pub const MAX_LOCK_STACK: u64 = 64;

/// ObjectMonitors in use: by default the VM begins to take them back at some ten thousand.
pub const MAX_JAVA_MONITORS: usize = 1 << 22;

/// Bytes of one stack that are looked through for locks: the default size of a stack is 1 MiB.
pub const MAX_STACK_FOR_LOCKS: u64 = 8 << 20;

/// The same of all stacks.
pub const MAX_LOCK_STACK_BYTES: u64 = 1 << 30;

/// Threads of Java are numbered from 1 or 3 on; lower owners of a monitor are none (`ObjectMonitor::DEFLATER_MARKER` is 2).
pub const FIRST_JAVA_THREAD_NUMBER: u64 = 3;

/// Chunks of one virtual thread's stack: a new one is made where the last is full, and has twice its frames.
pub const MAX_STACK_CHUNKS: usize = 1 << 12;

/// Blobs of stub routines: JDK 17 has two, 25 some ten.
pub const MAX_STUB_BLOBS: usize = 1 << 10;

/// Bytes of an object of the VM that is looked through word by word: its heap is the largest, some 2 KiB.
pub const MAX_VM_OBJECT: u64 = 4 << 10;

/// Direct and mapped buffers; a Netty server has some thousands.
pub const MAX_OWNED_BUFFERS: usize = 1 << 22;

/// Categories of Native Memory Tracking: JDK 25 has 28.
pub const MAX_NMT_CATEGORIES: usize = 128;

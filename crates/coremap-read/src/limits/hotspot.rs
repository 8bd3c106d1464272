//! Limits for HotSpot: its vmStructs, classes, heap spaces, code.

/// Maximum number of rows in one of the VM's tables (vmStructs). JDK 11 has about 3,000 fields, 25 about 600.
pub const MAX_VM_TABLE_ROWS: usize = 1 << 15;

/// Maximum length of a name in the VM's tables, in bytes. The longest, C++ template types, have about 100.
pub const MAX_VM_NAME: usize = 512;

/// Maximum number of superclasses of a class in the VM's tables. `JavaThread` has three.
pub const MAX_VM_SUPERCLASSES: usize = 32;

/// Maximum number of VM flags. JDK 25 has about 1,500.
pub const MAX_VM_FLAGS: u64 = 1 << 14;

/// Maximum length of a Symbol in bytes. Its length field has 16 bits.
pub const MAX_SYMBOL_BYTES: usize = 1 << 16;

/// Maximum number of loaded classes. Application servers have about 200,000.
pub const MAX_KLASSES: usize = 1 << 21;

/// Maximum number of class loaders followed. In JDK 11, each lambda has its own.
pub const MAX_CLASS_LOADERS: usize = 1 << 21;

/// Maximum number of superclasses from a class up to `java.lang.Object`. 40 are many.
pub const MAX_JAVA_SUPERCLASSES: usize = 1 << 10;

/// Maximum number of fields declared by a class. Their count has 16 bits, and the VM adds some.
pub const MAX_JAVA_FIELDS: usize = (1 << 16) + 64;

/// Maximum number of reference ranges of an instance (OopMapBlock). There is at most one per superclass.
pub const MAX_OOP_MAP_BLOCKS: u64 = 1 << 12;

/// Maximum number of heap regions. G1 has 2,048 by default, and some millions of 1 MiB for a heap of terabytes.
pub const MAX_HEAP_REGIONS: u64 = 1 << 22;

/// Maximum number of granules (2 MiB each) in ZGC's page table.
pub const MAX_ZGC_GRANULES: u64 = 1 << 26;

/// Maximum number of Java threads.
pub const MAX_JAVA_THREADS: u64 = 1 << 20;

/// Maximum number of JNI local handle blocks (32 handles each), over all threads.
pub const MAX_JNI_BLOCKS: usize = 1 << 20;

/// Maximum number of blocks in an OopStorage (64 handles each).
pub const MAX_OOP_STORAGE_BLOCKS: u64 = 1 << 20;

/// Maximum bytes scanned of libjvm's variables. They have about 2 MiB.
pub const MAX_VM_DATA: u64 = 64 << 20;

/// Maximum number of code cache heaps. The VM makes at most four.
pub const MAX_CODE_HEAPS: u64 = 64;

/// Maximum number of blocks in one code cache heap. A heap has at most 2 GiB, and the smallest code of a method takes
/// about 600 bytes.
pub const MAX_CODE_HEAP_BLOCKS: usize = 1 << 22;

/// Maximum number of the interpreter's codelets. JDK 17 has 271.
pub const MAX_CODELETS: u64 = 1 << 14;

/// Maximum depth of inlined methods at one address. `-XX:MaxInlineLevel` is 15, but does not count chains of method
/// handles.
pub const MAX_INLINED_SCOPES: usize = 1 << 10;

/// Maximum number of characters read of a thread's name.
pub const MAX_JAVA_THREAD_NAME: usize = 512;

/// Maximum number of Java threads used to find the control block slot in which the VM stores them. The slot is the same
/// for all threads.
pub const MAX_SLOT_WITNESSES: usize = 4;

/// Maximum bytes scanned of a thread's control block. glibc 2.36's `struct pthread` has 2,304 bytes.
pub const MAX_CONTROL_BLOCK: u64 = 0x900;

/// Maximum number of transitions from Java to native code on one stack. Each takes about a hundred bytes of stack.
pub const MAX_JAVA_ANCHORS: usize = 1 << 12;

/// Maximum number of held locks reported per thread.
pub const MAX_HELD_LOCKS: usize = 1 << 10;

/// Maximum number of entries in a LockStack. `LockStack::CAPACITY` is 8.
pub const MAX_LOCK_STACK: u64 = 64;

/// Maximum number of ObjectMonitors in use. By default the VM begins to reclaim them at about ten thousand.
pub const MAX_JAVA_MONITORS: usize = 1 << 22;

/// Maximum number of classes whose initialiser runs. Each has a thread in it, or several of one thread nest.
pub const MAX_INITIALIZING: usize = 1 << 16;

/// Maximum bytes of the fields of a `java.lang.Class` before its static fields. JDK 25 has about a hundred.
pub const MAX_MIRROR_BYTES: u64 = 1 << 12;

/// Maximum bytes of one stack scanned for locks. The default size of a stack is 1 MiB.
pub const MAX_STACK_FOR_LOCKS: u64 = 8 << 20;

/// Maximum bytes of all stacks scanned for locks.
pub const MAX_LOCK_STACK_BYTES: u64 = 1 << 30;

/// Lowest owner of a monitor that is a thread number. Java threads are numbered from 1 or 3; lower values have other
/// meanings (`ObjectMonitor::DEFLATER_MARKER` is 2).
pub const FIRST_JAVA_THREAD_NUMBER: u64 = 3;

/// Maximum number of chunks of a virtual thread's stack. If the last one is full, the VM adds one with twice its
/// frames.
pub const MAX_STACK_CHUNKS: usize = 1 << 12;

/// Maximum number of stub routine blobs. JDK 17 has two, 25 about ten.
pub const MAX_STUB_BLOBS: usize = 1 << 10;

/// Maximum bytes of a VM object that are scanned word by word. The largest is the heap object, about 2 KiB.
pub const MAX_VM_OBJECT: u64 = 4 << 10;

/// Maximum number of direct and mapped buffers. A Netty server has some thousands.
pub const MAX_OWNED_BUFFERS: usize = 1 << 22;

/// Maximum number of Native Memory Tracking categories. JDK 25 has 28.
pub const MAX_NMT_CATEGORIES: usize = 128;

/// Maximum number of objects of an executor's queue that are read. A longer queue has as many tasks at least.
pub const MAX_QUEUED_TASKS: usize = 1 << 20;

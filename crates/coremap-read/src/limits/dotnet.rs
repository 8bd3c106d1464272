//! Limits for CoreCLR: the GC heap, types, code, tasks, and layouts.

/// Maximum number of managed runtimes read in one process.
pub const MAX_RUNTIMES: usize = 8;

/// Maximum number of GC segments and regions: a heap of 512 GiB in regions of 4 MiB.
pub const MAX_GC_SEGMENTS: usize = 1 << 17;

/// Maximum number of types (MethodTables) seen in one heap. Large programs have about 100,000.
pub const MAX_METHOD_TABLES: usize = 1 << 20;

/// Maximum number of damaged ranges of a heap that are listed. All are counted.
pub const MAX_LOSSES: usize = 64;

/// Maximum bytes of a heap searched for the next object after damage, at tens of nanoseconds a word. Heaps in the
/// middle of a collection have some MiB of such ranges.
pub const MAX_HEAP_SEARCH: u64 = 4 << 30;

/// Maximum number of large free blocks listed. A heap of 32 GiB that is all free has this many.
pub const MAX_FREE_BLOCKS: usize = 1 << 16;

/// Maximum number of strings counted by content in one pass over the heap, at 32 bytes each. More strings take several
/// passes.
pub const MAX_STRINGS_A_PASS: u64 = 6 << 20;

/// Maximum number of duplicate strings listed, most wasteful first.
pub const MAX_DUPLICATES: usize = 1000;

/// Maximum number of UTF-16 units shown of a duplicate string.
pub const MAX_SHOWN_STRING: usize = 256;

/// Maximum number of loader heap blocks (64 KiB each).
pub const MAX_LOADER_BLOCKS: usize = 1 << 18;

/// Maximum number of steps through the handle table's maps, buckets and segments.
pub const MAX_HANDLE_STEPS: usize = 1 << 20;

/// Maximum number of reference series in one GCDesc. A type has fewer series than fields, and known types have under
/// 100.
pub const MAX_GC_SERIES: usize = 1 << 16;

/// Maximum number of fields declared by a type. Row numbers have 24 bits, but real types have at most some thousand
/// constants.
pub const MAX_FIELDS: u32 = 1 << 16;

/// Maximum length of the packed fields behind an EEClass, in bytes: 11 numbers of at most 37 bits.
pub const MAX_PACKED_FIELDS: usize = 64;

/// Maximum number of rows in all maps from tokens to types of one module. Row numbers have 24 bits.
pub const MAX_LOOKUP_ROWS: usize = 1 << 24;

/// Maximum number of maps from tokens to types followed in one module.
pub const MAX_LOOKUP_MAPS: usize = 1 << 10;

/// Maximum number of sync blocks. Their indexes have 26 bits.
pub const MAX_SYNC_BLOCKS: u32 = 1 << 26;

/// Maximum number of objects of locks (Lock, SemaphoreSlim, wait handles and others), and of steps in their lists.
pub const MAX_LOCK_OBJECTS: usize = 1 << 24;

/// Maximum number of threads waiting in Monitor.Wait, over all objects.
pub const MAX_WAITERS: usize = 1 << 18;

/// Maximum number of instantiations, arrays and pointers in one module's table, and of its buckets. The core library of
/// a big service has about 30,000.
pub const MAX_INSTANTIATIONS: usize = 1 << 20;

/// Maximum number of steps to find one generic struct among the loaded types. Real types have a handful of arguments; a
/// module has some thousand instantiations of one type.
pub const MAX_TYPE_STEPS: u32 = 1 << 18;

/// Maximum number of modules that occur in one generic type.
pub const MAX_TYPE_MODULES: usize = 64;

/// Maximum number of a thread's statics whose class constructors are running.
pub const MAX_IN_FLIGHT: usize = 1 << 12;

/// Maximum number of static references of one module that get names, including thread statics.
pub const MAX_STATICS: usize = 1 << 20;

/// Maximum number of fields searched for statics, over all modules. A program of a hundred thousand types has about a
/// million fields. A corrupt table of types claims as many for each type (COREMAP_SEED=41000145 of dotnet9-methods).
pub const MAX_FIELDS_OF_STATICS: usize = 1 << 22;

/// Maximum number of finalizable objects in one generation of one GC heap.
pub const MAX_FINALIZABLE: u64 = 1 << 28;

/// Maximum number of objects in a heap for which dominators are computed. At the measured 13 bytes each
/// (docs/performance.md) they take 7 GB, in memory or in files. A heap with so many objects has at least 13 GB.
pub const MAX_LIVE_OBJECTS: usize = 1 << 29;

/// Maximum number of objects in a heap for which the ownership tree is built. At 28 bytes each it takes 1.7 GB.
pub const MAX_OWNED_OBJECTS: usize = 1 << 26;

/// Maximum number of path shapes. Large programs have about 100,000.
pub const MAX_SHAPES: usize = 1 << 22;

/// Maximum bytes of one thread's stack scanned for references.
pub const MAX_STACK_SCAN: u64 = 1 << 30;

/// Maximum number of objects stored of one path from a root. Linked lists have millions.
pub const MAX_PATH: usize = 1 << 22;

/// Maximum length of a range described by one runtime structure, in bytes. The GC reserves 256 GiB by default.
pub const MAX_RUNTIME_RANGE: u64 = 1 << 42;

/// Maximum size of the GC's bookkeeping in bytes: about a hundredth of the GC's reserve.
pub const MAX_GC_BOOKKEEPING: u64 = 1 << 36;

/// Maximum number of code ranges followed, and of nodes in their map. Real processes have a few hundred.
pub const MAX_CODE_RANGES: usize = 1 << 16;

/// Maximum number of errors reported about code ranges. A map with this many cycles is not followed further.
pub const MAX_CODE_RANGE_NOTES: usize = 64;

/// Maximum number of blocks in all code heaps; 16 words of a nibble map count as one block. A large service has 200,000
/// methods.
pub const MAX_CODE_BLOCKS: usize = 1 << 22;

/// Maximum bytes read of one JIT code heap. The runtime makes heaps of 64 KiB to some MiB, and one method must fit into
/// 2 GiB.
pub const MAX_CODE_HEAP: u64 = 1 << 31;

/// Maximum number of funclets read of one method.
pub const MAX_FUNCLETS: u32 = 1 << 12;

/// Maximum number of runtime functions in one image. The framework's core library has 60,000, a composite image of the
/// framework 400,000.
pub const MAX_RUNTIME_FUNCTIONS: u32 = 1 << 21;

/// Maximum number of runtime functions and prepared methods in all images.
pub const MAX_IMAGE_FUNCTIONS: usize = 1 << 23;

/// Maximum number of buckets in one image's table of prepared methods, with four methods each.
pub const MAX_PREPARED_BUCKETS: u64 = 1 << 20;

/// Maximum number of sections in a ReadyToRun header. 20 kinds exist.
pub const MAX_R2R_SECTIONS: u32 = 1 << 10;

/// Maximum length of a table in a ReadyToRun image, in bytes.
pub const MAX_R2R_TABLE: usize = 128 << 20;

/// Maximum number of buckets in one of the runtime's hash tables.
pub const MAX_HASH_BUCKETS: u64 = 1 << 22;

/// Maximum length of one of the runtime's hash tables, in bytes.
pub const MAX_HASH_BYTES: u64 = 64 << 20;

/// Maximum number of managed modules read of a runtime. Services with plugins have some thousand.
pub const MAX_MANAGED_MODULES: usize = 1 << 14;

/// Maximum bytes of metadata copied because it is not contiguous, over all modules.
pub const MAX_METADATA_COPIES: usize = 256 << 20;

/// Maximum depth of a type's name: nested arguments, arrays of arrays.
pub const MAX_TYPE_DEPTH: u32 = 64;

/// Maximum bytes printed of a method's or type's name. Names of nested generics are unbounded.
pub const MAX_TYPE_NAME: usize = 16 << 10;

/// Maximum number of arguments of a generic type or method. ECMA-335 allows 65,535; real ones have a few.
pub const MAX_GENERIC_ARGS: u32 = 1 << 10;

/// Maximum length of a stored signature in bytes.
pub const MAX_SIGNATURE: u32 = 64 << 10;

/// Maximum number of code versions followed for one method.
pub const MAX_CODE_VERSIONS: usize = 1 << 10;

/// Maximum number of code versions followed for all methods in one query.
pub const MAX_VERSION_STEPS: usize = 1 << 23;

/// Maximum number of entries in a method's map from native code to IL.
pub const MAX_IL_MAP: u32 = 1 << 20;

/// Maximum number of parameters, and of local variables, whose names are read per method.
pub const MAX_VARIABLES: usize = 1 << 12;

/// Maximum nesting depth of types, followed outwards.
pub const MAX_TYPE_NESTING: usize = 64;

/// Maximum number of methods and funclets listed.
pub const MAX_METHODS: usize = 1 << 24;

/// Maximum length of a path stored by the runtime (UTF-16), in bytes.
pub const MAX_PATH_BYTES: usize = 8 << 10;

/// Maximum number of chained unwind records of one function. (Its unwind codes are limited by their one-byte count.)
pub const MAX_UNWIND_CHAIN: usize = 32;

/// Maximum length of a method's GC info in bytes. The largest seen has 26 KiB.
pub const MAX_GC_INFO: u64 = 4 << 20;

/// Bytes of GC info read at first. Few methods have more.
pub const FIRST_GC_INFO: u64 = 4 << 10;

/// Maximum number of offsets, ranges and slots of GC info decoded for all frames. An overflowed stack has 170,000
/// frames of about a hundred each.
pub const MAX_GC_INFO_WORK: u64 = 1 << 28;

/// Maximum number of references on all stacks, at 100 bytes each.
pub const MAX_STACK_REFS: usize = 1 << 22;

/// Maximum number of frames above a catch or finally block that are searched for the frame of its method. Each such
/// block starts a search.
pub const MAX_HANDLER_SEARCH: usize = 1 << 12;

/// Maximum number of slots in a method's GC info. The JIT tracks at most some thousand.
pub const MAX_GC_SLOTS: u64 = 1 << 16;

/// Maximum number of safe points in a method's GC info. They are its calls.
pub const MAX_SAFE_POINTS: u32 = 1 << 20;

/// Maximum number of explicit Frames of all threads, at about 600 bytes each. There are some at each transition between
/// managed code and the runtime.
pub const MAX_EXPLICIT_FRAMES: usize = 1 << 18;

/// Maximum number of references in one GCFrame or helper Frame. A call by reflection has one per argument.
pub const MAX_PROTECTED: u64 = 1 << 16;

/// Maximum number of exception clauses of a method.
pub const MAX_EH_CLAUSES: u64 = 1 << 14;

/// Maximum number of pending tasks and async methods, at 200 bytes each. A busy server has about 100,000.
pub const MAX_ASYNC_OBJECTS: usize = 1 << 23;

/// Maximum number of continuations of one task.
pub const MAX_CONTINUATIONS: usize = 1 << 20;

/// Maximum depth of a chain of tasks. Async recursion may be deep, but no deeper than a stack.
pub const MAX_ASYNC_DEPTH: usize = 1 << 18;

/// Maximum number of chain steps in one analysis. With many-to-many waits the number of chains is exponential.
pub const MAX_ASYNC_STEPS: usize = 1 << 26;

/// Maximum number of distinct chain steps stored (about 30 bytes each).
pub const MAX_ASYNC_PARTS: usize = 1 << 22;

/// Maximum number of objects listed for each group of equal chains.
pub const MAX_ASYNC_LISTED: usize = 64;

/// Maximum length of a thread's name in UTF-16 units.
pub const MAX_THREAD_NAME: usize = 256;

/// Maximum number of slots in the runtime's table for debuggers (DAC). 3.1 has 177.
pub const MAX_DAC_SLOTS: u64 = 512;

/// Maximum number of word runs in an image tried as the table for debuggers (DAC). An image has one such table, and a
/// global offset table beside it.
pub const MAX_DAC_TABLES: usize = 8;

/// Maximum number of buckets in one handle table map (INITIAL_HANDLE_TABLE_ARRAY_SIZE).
pub const MAX_HANDLE_BUCKETS: u64 = 10;

/// Maximum number of tables in one bucket of a handle table map: one per processor, and a server GC has at most one
/// heap per processor.
pub const MAX_HANDLE_TABLES: u64 = MAX_GC_HEAPS as u64;

/// Maximum number of fields searched in one class. Thread has under 30.
pub const MAX_THREAD_FIELDS: u64 = 128;

/// Maximum BaseSize of a MethodTable in bytes. A field's offset has 27 bits (field.h).
pub const MAX_BASE_SIZE: u32 = 1 << 28;

/// Maximum number of GC heaps. There is one per core, and even the largest machines have far fewer (MAX_SUPPORTED_CPUS
/// in gcpriv.h is 1,024).
pub const MAX_GC_HEAPS: u32 = 1024;

/// Maximum distance between a `heap_segment` struct at the start of its segment and the segment's memory, in bytes
/// (SEGMENT_INITIAL_COMMIT, a page).
pub const MAX_SEGMENT_HEADER: u64 = 64 << 10;

/// Maximum number of objects between a task and its continuation: a delegate, a context wrapper, a wrapper of a
/// debugger or profiler.
pub const MAX_WRAPPERS: u32 = 8;

/// Maximum length of a contract descriptor's JSON in bytes. 10.0.14 has 10,563 bytes, newer ones about 90 KiB.
pub const MAX_DESCRIPTOR: u32 = 1 << 20;

/// Maximum number of pointers beside a contract descriptor. 10.0.14 has 24.
pub const MAX_DESCRIPTOR_POINTERS: u32 = 4096;

/// Maximum number of places per part of a module's data where a contract descriptor may begin. A NativeAOT program has
/// three descriptors.
pub const MAX_DESCRIPTOR_PLACES: usize = 16;

/// Maximum number of types, of globals, and of fields per type read from one descriptor. Real ones have a few hundred.
pub const MAX_DESCRIPTOR_ENTRIES: usize = 4096;

/// Maximum length of a loader or code heap block in bytes. The runtime reserves at most 2 GiB for code.
pub const MAX_LOADER_BLOCK: u64 = 4 << 30;

/// Maximum number of blocks in one handle table segment of 64 KiB.
pub const MAX_HANDLE_BLOCKS: u64 = 255;

/// Maximum number of handles in one block of a handle table segment, which has a 64-bit mask for them.
pub const MAX_BLOCK_HANDLES: u64 = 64;

/// Maximum number of address bits per level of the code range map. The runtime uses 8.
pub const MAX_RANGE_BITS: u64 = 12;

/// Maximum number of levels of the code range map. The runtime has 5; larger values mean a corrupt table.
pub const MAX_RANGE_LEVELS: u64 = 8;

/// Maximum number of kinds of free regions (basic, large, huge), a number read from the core.
pub const MAX_FREE_REGION_KINDS: u32 = 16;

/// Maximum number of bits of the bucket count in a ReadyToRun image's table of instantiations. A composite image of the
/// framework has about 100,000 entries.
pub const MAX_INSTANCE_BUCKET_BITS: u32 = 24;

/// Maximum offset or size in a layout that a process describes itself. The largest struct known (SystemDomain of .NET
/// 8) has 0x1638 bytes.
pub const MAX_FIELD_OFFSET: i64 = 64 << 10;

/// Maximum number of segments whose first object is checked, to validate a layout that no core has proven.
pub const MAX_CHECKED_SEGMENTS: usize = 256;

/// Maximum number of open EventPipe sessions. The runtime has 64.
pub const MAX_EVENT_SESSIONS: usize = 64;

/// Maximum number of buffers of all sessions. A session of 64 GiB has 2^17 of 512 KiB.
pub const MAX_EVENT_BUFFERS: usize = 1 << 17;

/// Maximum number of structures searched for the buffers of one session. Each thread that writes events adds three.
pub const MAX_EVENT_STRUCTS: usize = 1 << 14;

/// Maximum number of words of an object that are examined to prove its start.
pub const MAX_PROVING_WORDS: u64 = 512;

/// Maximum number of inner exceptions that are followed, one from another, beyond the listed objects.
pub const MAX_INNER_EXCEPTIONS: usize = 1 << 12;

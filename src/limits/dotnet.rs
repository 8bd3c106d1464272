//! CoreCLR: the GC's heap, types, code, tasks, and tables of layouts.

/// Managed runtimes read in one process.
pub const MAX_RUNTIMES: usize = 8;

/// GC segments and regions: a heap of 512 GiB in regions of 4 MiB has as many.
pub const MAX_GC_SEGMENTS: usize = 1 << 17;

/// MethodTables of objects met in one heap; large programs have some 100,000.
pub const MAX_METHOD_TABLES: usize = 1 << 20;

/// Places of a heap without an object that are listed; all are counted.
pub const MAX_LOSSES: usize = 64;

/// Bytes of a heap searched for the next object where one is damaged: tens of
/// nanoseconds a word. Heaps in the middle of a collection have some MiB.
pub const MAX_HEAP_SEARCH: u64 = 4 << 30;

/// Large free blocks listed; on a heap of 32 GiB that is free space and nothing else.
pub const MAX_FREE_BLOCKS: usize = 1 << 16;

/// Strings counted by content in one pass over the heap, at 24 bytes each.
/// Where there are more, they are counted in several passes.
pub const MAX_STRINGS_A_PASS: u64 = 8 << 20;

/// Duplicate strings listed, those first that waste most.
pub const MAX_DUPLICATES: usize = 1000;

/// UTF-16 units of a duplicate string that are shown.
pub const MAX_SHOWN_STRING: usize = 256;

/// Blocks of loader heaps (64 KiB each) in all.
pub const MAX_LOADER_BLOCKS: usize = 1 << 18;

/// Steps through the handle table's maps, buckets and segments.
pub const MAX_HANDLE_STEPS: usize = 1 << 20;

/// Series of references in one GCDesc: a type has fewer than fields, and those
/// known have under 100.
pub const MAX_GC_SERIES: usize = 1 << 16;

/// Fields that one type declares: their row numbers have 24 bits, programs have
/// some thousand constants in one type at most.
pub const MAX_FIELDS: u32 = 1 << 16;

/// Bytes of the packed numbers behind an EEClass: 11 of at most 37 bits.
pub const MAX_PACKED_FIELDS: usize = 64;

/// Rows that a module's maps from tokens to types have together: row numbers have 24 bits.
pub const MAX_LOOKUP_ROWS: usize = 1 << 24;

/// Maps from tokens to types in one module that are followed.
pub const MAX_LOOKUP_MAPS: usize = 1 << 10;

/// Sync blocks: their numbers have 26 bits.
pub const MAX_SYNC_BLOCKS: u32 = 1 << 26;

/// Threads that wait to be pulsed, on all objects together.
pub const MAX_WAITERS: usize = 1 << 18;

/// Instantiations, arrays and pointers in one module's table, and its buckets: the
/// core library of a big service has some 30,000.
pub const MAX_INSTANTIATIONS: usize = 1 << 20;

/// Steps to find one generic struct among those loaded: real types are made of a
/// handful, a module has some thousand instantiations of one type.
pub const MAX_TYPE_STEPS: u32 = 1 << 18;

/// Modules that one generic type is made of.
pub const MAX_TYPE_MODULES: usize = 64;

/// Statics of a thread whose class constructors are running.
pub const MAX_IN_FLIGHT: usize = 1 << 12;

/// Static references of one module that are given names, those of each thread too.
pub const MAX_STATICS: usize = 1 << 20;

/// Fields of types that are looked at for statics, in all modules of a process
/// together: a program of a hundred thousand types has some million. A table of
/// types that lies has as many at each (COREMAP_SEED=41000145 of dotnet9-methods).
pub const MAX_FIELDS_OF_STATICS: usize = 1 << 22;

/// Objects with finalizers in one generation of one GC heap.
pub const MAX_FINALIZABLE: u64 = 1 << 28;

/// Objects of one heap whose dominators are found. At the 13 bytes
/// each that were measured (docs/performance.md) these take 7 GB, in memory or in files, and are a heap of 13 GB at least.
pub const MAX_LIVE_OBJECTS: usize = 1 << 29;

/// Shapes of ways from roots that are told apart; large programs have some
/// 100,000.
pub const MAX_SHAPES: usize = 1 << 22;

/// Bytes of one thread's stack that are looked through for references.
pub const MAX_STACK_SCAN: u64 = 1 << 30;

/// Objects of one path from a root that are kept: lists have millions.
pub const MAX_PATH: usize = 1 << 22;

/// Largest range that one structure of a runtime is believed to speak for: the
/// GC reserves 256 GiB by default.
pub const MAX_RUNTIME_RANGE: u64 = 1 << 42;

/// Largest bookkeeping of the GC believed: about a hundredth of its reserve.
pub const MAX_GC_BOOKKEEPING: u64 = 1 << 36;

/// Ranges of code followed, and nodes of the map of them: real processes have
/// a few hundred.
pub const MAX_CODE_RANGES: usize = 1 << 16;

/// Things wrong with the ranges of code that are told; a map with so many
/// cycles is no longer followed.
pub const MAX_CODE_RANGE_NOTES: usize = 64;

/// Blocks of jitted code in all code heaps; 16 words of their maps count as one.
/// A large service has 200,000 methods.
pub const MAX_CODE_BLOCKS: usize = 1 << 22;

/// Bytes of one JIT code heap looked at; the runtime makes heaps of 64 KiB to
/// some MiB, and one method must fit into 2 GiB.
pub const MAX_CODE_HEAP: u64 = 1 << 31;

/// Funclets of one method looked at.
pub const MAX_FUNCLETS: u32 = 1 << 12;

/// Runtime functions of one image; the framework's core library has 60,000,
/// a composite image of all of it 400,000.
pub const MAX_RUNTIME_FUNCTIONS: u32 = 1 << 21;

/// Runtime functions, and methods that were prepared, of all images together.
pub const MAX_IMAGE_FUNCTIONS: usize = 1 << 23;

/// Buckets of the table of methods that were prepared in one image, four in each.
pub const MAX_PREPARED_BUCKETS: u64 = 1 << 20;

/// Sections of a ReadyToRun header; 20 kinds exist.
pub const MAX_R2R_SECTIONS: u32 = 1 << 10;

/// Bytes of one table of a ReadyToRun image.
pub const MAX_R2R_TABLE: usize = 128 << 20;

/// Buckets of one hash table of the runtime.
pub const MAX_HASH_BUCKETS: u64 = 1 << 22;

/// Bytes of one hash table of the runtime.
pub const MAX_HASH_BYTES: u64 = 64 << 20;

/// Modules of one runtime looked at; services with plugins have some thousand.
pub const MAX_MANAGED_MODULES: usize = 1 << 14;

/// Bytes of metadata that had to be copied, as it does not lie in one piece, of
/// all modules together.
pub const MAX_METADATA_COPIES: usize = 256 << 20;

/// Depth of one type's name: arguments in arguments, arrays of arrays.
pub const MAX_TYPE_DEPTH: u32 = 64;

/// Bytes of one method's or type's name that are printed; generics of generics
/// grow without end.
pub const MAX_TYPE_NAME: usize = 16 << 10;

/// Arguments of one generic type or method (ECMA-335 allows 65,535; compilers
/// and people a few).
pub const MAX_GENERIC_ARGS: u32 = 1 << 10;

/// Bytes of one stored signature.
pub const MAX_SIGNATURE: u32 = 64 << 10;

/// Code versions of one method followed.
pub const MAX_CODE_VERSIONS: usize = 1 << 10;

/// Code versions of all methods together, each time they are asked for.
pub const MAX_VERSION_STEPS: usize = 1 << 23;

/// Entries of one method's map from native code to IL.
pub const MAX_IL_MAP: u32 = 1 << 20;

/// Types nested in one another, followed outwards.
pub const MAX_TYPE_NESTING: usize = 64;

/// Methods listed in all, and their funclets.
pub const MAX_METHODS: usize = 1 << 24;

/// Bytes of one path of the runtime's (UTF-16).
pub const MAX_PATH_BYTES: usize = 8 << 10;

/// Unwind codes and chained pieces of one function (codes: a byte counts them).
pub const MAX_UNWIND_CHAIN: usize = 32;

/// Bytes of one method's GC info; the largest in the cores seen has 26 KiB.
pub const MAX_GC_INFO: u64 = 4 << 20;

/// Bytes of GC info that are read at first; few methods have more.
pub const FIRST_GC_INFO: u64 = 4 << 10;

/// What is read of GC info for all frames together: offsets, ranges and slots. A
/// stack that overflowed has 170,000 frames of some hundred each.
pub const MAX_GC_INFO_WORK: u64 = 1 << 28;

/// References that all stacks together are taken to hold, 100 bytes each.
pub const MAX_STACK_REFS: usize = 1 << 22;

/// Frames above a catch or finally block among which its method's own is looked
/// for; each such block looks.
pub const MAX_HANDLER_SEARCH: usize = 1 << 12;

/// Slots of one method's GC info. The JIT tracks at most some thousand.
pub const MAX_GC_SLOTS: u64 = 1 << 16;

/// Safe points of one method's GC info: its calls.
pub const MAX_SAFE_POINTS: u32 = 1 << 20;

/// Explicit Frames of all threads together: some at each change between managed code and
/// the runtime's own, at about 600 bytes.
pub const MAX_EXPLICIT_FRAMES: usize = 1 << 18;

/// References that one GCFrame or helper Frame lists; a call by reflection has
/// as many as its method has arguments.
pub const MAX_PROTECTED: u64 = 1 << 16;

/// Exception clauses of one method.
pub const MAX_EH_CLAUSES: u64 = 1 << 14;

/// Tasks and async methods that are not done: a busy server has some 100,000; 200
/// bytes each.
pub const MAX_ASYNC_OBJECTS: usize = 1 << 23;

/// What goes on after one task.
pub const MAX_CONTINUATIONS: usize = 1 << 20;

/// Parts of one chain of tasks: async recursion may be deep, no deeper than a stack.
pub const MAX_ASYNC_DEPTH: usize = 1 << 18;

/// Parts of all chains together that are followed: where many wait for many there is
/// no end of them.
pub const MAX_ASYNC_STEPS: usize = 1 << 26;

/// Parts of all different chains together, some 30 bytes each.
pub const MAX_ASYNC_PARTS: usize = 1 << 22;

/// Objects that are listed of each of the chains that are equal.
pub const MAX_ASYNC_LISTED: usize = 64;

/// UTF-16 units of a thread's name.
pub const MAX_THREAD_NAME: usize = 256;

/// Slots of the runtime's table for debuggers; 3.1 has 177.
pub const MAX_DAC_SLOTS: u64 = 512;

/// Runs of words that may be that table; an image has it once, and a global offset table beside it.
pub const MAX_DAC_TABLES: usize = 8;

/// Buckets in one map of handle tables (INITIAL_HANDLE_TABLE_ARRAY_SIZE).
pub const MAX_HANDLE_BUCKETS: u64 = 10;

/// Tables in one such bucket: one for each processor, of which a server GC has a heap at most.
pub const MAX_HANDLE_TABLES: u64 = MAX_GC_HEAPS as u64;

/// Fields of one class that are looked through; Thread has under 30.
pub const MAX_THREAD_FIELDS: u64 = 128;

/// Largest BaseSize of a MethodTable believed: a field's offset has 27 bits (field.h).
pub const MAX_BASE_SIZE: u32 = 1 << 28;

/// GC heaps: one a core, and far below this on the largest machines
/// (MAX_SUPPORTED_CPUS in gcpriv.h is 1,024).
pub const MAX_GC_HEAPS: u32 = 1024;

/// What lies between a `heap_segment` struct and its memory where the struct
/// itself stands at the segment's start (SEGMENT_INITIAL_COMMIT, a page).
pub const MAX_SEGMENT_HEADER: u64 = 64 << 10;

/// Objects between a task and what goes on: a delegate, what keeps its context, a
/// wrapper of a debugger or profiler.
pub const MAX_WRAPPERS: u32 = 8;

/// Bytes of a contract descriptor's JSON (10.0.14 has 10,563 bytes, newer ones about 90 KiB).
pub const MAX_DESCRIPTOR: u32 = 1 << 20;

/// Pointers beside a contract descriptor (10.0.14 has 24).
pub const MAX_DESCRIPTOR_POINTERS: u32 = 4096;

/// Types, globals and fields of a type taken from one descriptor: real ones have some
/// hundred.
pub const MAX_DESCRIPTOR_ENTRIES: usize = 4096;

/// Largest block of a loader or code heap believed: a reserve for code is at most 2 GiB.
pub const MAX_LOADER_BLOCK: u64 = 4 << 30;

/// Blocks of one handle table segment, and handles of one block: what its 64 KiB hold.
pub const MAX_HANDLE_BLOCKS: u64 = 255;

/// Handles in one such block: a mask of 64 bits stands for them.
pub const MAX_BLOCK_HANDLES: u64 = 64;

/// Bits that one level of the map of code ranges takes of an address (the runtime: 8),
/// and levels that it has (5): more would be tables of nothing.
pub const MAX_RANGE_BITS: u64 = 12;

/// Levels of that map.
pub const MAX_RANGE_LEVELS: u64 = 8;

/// Kinds of free regions (basic, large, huge); a number read from the core.
pub const MAX_FREE_REGION_KINDS: u32 = 16;

/// Bits of the count of buckets in a ReadyToRun image's table of instantiations: a
/// composite image of the framework has some 100,000 in it.
pub const MAX_INSTANCE_BUCKET_BITS: u32 = 24;

/// Largest offset or size taken from a layout: the largest struct known (SystemDomain of
/// .NET 8) is 0x1638 bytes.
pub const MAX_FIELD_OFFSET: i64 = 64 << 10;

/// Segments whose first object is looked at, to check a layout that no core has proven.
pub const MAX_CHECKED_SEGMENTS: usize = 256;

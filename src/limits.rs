//! Every cap on what a core may make us do, in one place, each with its reason.
//!
//! A core comes from another machine and may be cut, corrupt or made on
//! purpose. No allocation is sized by a number read from it without passing
//! one of these, and every list that is followed in its memory ends here.

/// Program headers read. Linux allows 2^32 mappings by PN_XNUM; processes are
/// held to vm.max_map_count (65,530 as shipped, 1,048,576 on tuned hosts).
pub const MAX_SEGMENTS: usize = 4 << 20;

/// Entries of NT_FILE in all; one per file mapping, and vm.max_map_count is at
/// most about a million even where it was raised.
pub const MAX_FILE_MAPPINGS: usize = 1 << 20;

/// Threads; the kernel's own ceiling (PID_MAX_LIMIT) is 4,194,304.
pub const MAX_THREADS: usize = 4 << 20;

/// Bytes read for pointers to give `summary` a finding: tens of milliseconds.
pub const MAX_FINDING_SCAN: u64 = 256 << 20;

/// Pages that `summary` samples of anonymous blocks, all together, where that leaves a few for each: 128 MiB,
/// some hundredths of a second. With the 64 pages that one block is worth, a hundred thousand
/// blocks would be all of a core of 20 GB.
pub const MAX_FINDING_PAGES: u64 = 32 << 10;

/// Bytes of one part of malloc's heap whose blocks are looked up by address, at
/// a byte of ours for each 64: what lies behind is in no answer.
pub const MAX_HEAP_PART: u64 = 64 << 30;

/// Words of the managed heap that lead to native memory, at 16 bytes each.
pub const MAX_HELD: usize = 4 << 20;

/// Bytes of a baseline: a summary has some 40 kinds of 200 bytes, and a few findings.
pub const MAX_BASELINE: u64 = 16 << 20;

/// Words that `refs` remembers, at some 250 bytes each; all are counted.
pub const MAX_REFS: usize = 1 << 18;

/// Bytes of one path or name taken from the core (PATH_MAX is 4,096).
pub const MAX_NAME: usize = 4096;

/// Bytes of argv, envp and auxv strings read from the main stack. The kernel
/// allows a quarter of the stack limit; 2 MiB is what execve takes by default.
pub const MAX_ARG_BYTES: usize = 2 << 20;

/// Number of argv and of envp pointers followed.
pub const MAX_ARGS: usize = 1 << 16;

/// Modules whose headers are read.
pub const MAX_MODULES: usize = 1 << 16;

/// Program or section headers of one module (real ones have under 100;
/// -ffunction-sections objects that are not images have more).
pub const MAX_IMAGE_HEADERS: usize = 4096;

/// PT_LOADs of one image that are placed (real ones have 2 to 6).
pub const MAX_IMAGE_SEGMENTS: usize = 64;

/// PT_LOADs and sections of all images together.
pub const MAX_IMAGE_PARTS: usize = 1 << 18;

/// Address space of one image: the largest known are some hundred MiB.
pub const MAX_IMAGE_SPAN: u64 = 8 << 30;

/// Bytes of one image's writable data that are looked through for a structure.
pub const MAX_IMAGE_DATA: u64 = 16 << 20;

/// Managed runtimes read in one process.
pub const MAX_RUNTIMES: usize = 8;

/// GC segments and regions: a heap of 512 GiB in regions of 4 MiB has as many.
pub const MAX_GC_SEGMENTS: usize = 1 << 17;

/// MethodTables of objects met in one heap; large programs have some 100,000.
pub const MAX_METHOD_TABLES: usize = 1 << 20;

/// Bytes of the names of all types listed: 100,000 real ones have some 10 MiB.
pub const MAX_NAMES: usize = 64 << 20;

/// Places of a heap without an object that are listed; all are counted.
pub const MAX_LOSSES: usize = 64;

/// Bytes of a heap searched for the next object where one is damaged: tens of
/// nanoseconds a word. Heaps in the middle of a collection have some MiB.
pub const MAX_HEAP_SEARCH: u64 = 4 << 30;

/// Large free blocks listed; on a heap of 32 GiB that is free space and nothing else.
pub const MAX_FREE_BLOCKS: usize = 1 << 16;

/// Different strings counted in one pass over the heap, at some 50 bytes each.
/// Where there are more strings, they are counted in several passes.
pub const MAX_STRINGS_A_PASS: u64 = 4 << 20;

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

/// Maps from tokens to types in one module that are followed.
pub const MAX_LOOKUP_MAPS: usize = 1 << 10;

/// Sync blocks: their numbers have 26 bits.
pub const MAX_SYNC_BLOCKS: u32 = 1 << 26;

/// Threads that wait to be pulsed on one object.
pub const MAX_WAITERS: usize = 1 << 16;

/// Objects that one list has; the rest is counted.
pub const MAX_LISTED_OBJECTS: usize = 1 << 20;

/// Elements of an array that are shown.
pub const MAX_SHOWN_ELEMENTS: u64 = 32;

/// UTF-16 units of a string that `object` shows; of others, some 256.
pub const MAX_SHOWN_TEXT: usize = 64 << 10;

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

/// Attributes of one type that are looked at.
pub const MAX_ATTRIBUTES: usize = 1 << 10;

/// Fields of structs in one object that are shown: 32 elements of big structs are
/// some thousand.
pub const MAX_SHOWN_ROWS: usize = 1 << 16;

/// Types of fields that are kept while an object is shown.
pub const MAX_SHOWN_STRUCTS: usize = 1 << 16;

/// Dimensions of an array: the runtime allows 32.
pub const MAX_ARRAY_RANK: u32 = 32;

/// Threads whose value of a thread static is shown.
pub const MAX_SHOWN_THREADS: usize = 1 << 14;

/// Frames of one exception's stack trace that are shown.
pub const MAX_SHOWN_FRAMES: u64 = 1 << 12;

/// Methods that one delegate calls and that are shown: as many as elements.
pub const MAX_SHOWN_METHODS: u64 = MAX_SHOWN_ELEMENTS;

/// Entries of one collection that are shown: as many as elements.
pub const MAX_SHOWN_ENTRIES: usize = MAX_SHOWN_ELEMENTS as usize;

/// Slots of a dictionary that are looked through for its first entries.
pub const MAX_SLOTS_TRIED: u64 = 1 << 12;

/// Structs within structs whose fields are shown.
pub const MAX_SHOWN_NESTING: u32 = 8;

/// Static references of one module that are given names.
pub const MAX_STATICS: usize = 1 << 20;

/// Objects with finalizers in one generation of one GC heap.
pub const MAX_FINALIZABLE: u64 = 1 << 28;

/// Objects of one heap whose dominators are found. Numbers have 30 bits; at some
/// 32 bytes each these take 17 GB, and are a heap of 13 GB at least.
pub const MAX_LIVE_OBJECTS: usize = 1 << 29;

/// Shapes of ways from roots that are told apart; large programs have some
/// 100,000.
pub const MAX_SHAPES: usize = 1 << 22;

/// Objects told that dominate the one asked for, from the nearest on: in a list
/// there are as many as nodes.
pub const MAX_SHOWN_DOMINATORS: usize = 32;

/// Rows that `--top` may ask for.
pub const MAX_TOP: usize = 1 << 16;

/// Bytes of one thread's stack that are looked through for references.
pub const MAX_STACK_SCAN: u64 = 1 << 30;

/// Objects of one path from a root that are kept: lists have millions.
pub const MAX_PATH: usize = 1 << 22;

/// Paths from roots that are told where not all are asked for, and where they are.
pub const MAX_PATHS: usize = 32;
/// See [`MAX_PATHS`].
pub const MAX_ALL_PATHS: usize = 1 << 12;

/// Largest range that one structure of a runtime is believed to speak for: the
/// GC reserves 256 GiB by default.
pub const MAX_RUNTIME_RANGE: u64 = 1 << 42;

/// Largest bookkeeping of the GC believed: about a hundredth of its reserve.
pub const MAX_GC_BOOKKEEPING: u64 = 1 << 36;

/// Claims in all: some for each mapping, of which there are at most a million.
pub const MAX_CLAIMS: usize = 4 << 20;

/// C libraries whose data is searched for its version text.
pub const MAX_BANNERS: usize = 4;

/// Bytes of one build-id (SHA-1 is 20; linkers allow any).
pub const MAX_BUILD_ID: usize = 64;

/// Nodes followed in one linked list of the process (stack lists, arenas).
pub const MAX_LIST: usize = 1 << 20;

/// Malloc heaps (64 MiB of address space each) looked at.
pub const MAX_MALLOC_HEAPS: usize = 1 << 18;

/// Free chunks of malloc that are listed, at 8 bytes each; more are told apart
/// from used ones by the walk, but not by where they are kept.
pub const MAX_FREE_CHUNKS: usize = 64 << 20;

/// Blocks in one list of a thread's cache: its count has 16 bits.
pub const MAX_TCACHE_LIST: usize = 1 << 16;

/// Blocks looked at in the caches of all threads, and in what looks like one.
pub const MAX_TCACHE_STEPS: usize = 16 << 20;

/// Blocks of a cache's size that are looked at as caches where no thread points to
/// them: one for each thread that is gone.
pub const MAX_TCACHES: usize = 1 << 18;

/// Chunks of malloc with a mapping of their own: vm.max_map_count is at most about
/// a million.
pub const MAX_MAPPED_CHUNKS: usize = 1 << 20;

/// Pages that are probed for such chunks where fewer are found than malloc counts:
/// 512 MiB of memory that nobody claims. Each is a page read from the file.
pub const MAX_MAPPED_PROBES: usize = 128 << 10;

/// Bytes of malloc's heaps searched for the next chunk where one is damaged.
pub const MAX_MALLOC_SEARCH: u64 = 4 << 30;

/// Chunk sizes that blocks are counted by; a program that leaks has a few thousand.
pub const MAX_CHUNK_SIZES: usize = 1 << 20;

/// Chunks listed.
pub const MAX_LISTED_CHUNKS: usize = 64 << 20;

/// Words of a thread control block that are looked at for the stack's bounds:
/// glibc's struct pthread is 2,304 bytes on x86_64 and 1,856 on aarch64.
pub const MAX_TCB_BYTES: usize = 4096;

/// Extents (data and hole) read from a sparse file; a more shattered file is
/// read as if dense from there on.
pub const MAX_EXTENTS: usize = 1 << 20;

/// Bytes an inflated core may take. Holes cost nothing on disk, and a
/// process's dumped memory cannot exceed its machine's.
pub const MAX_INFLATED: u64 = 1 << 44;

/// Bytes of the file that are asked for at once before they are read: a page of each
/// of 100,000 mappings is 400 MB. More would push out what was asked for first.
pub const MAX_READ_AHEAD: u64 = 1 << 30;

/// Hits kept by a search; more are counted and reported, not kept.
pub const MAX_HITS: usize = 1 << 20;

/// Longest match of a regular expression that is found whole where it crosses
/// a block or mapping border.
pub const MAX_MATCH: usize = 4096;

/// Bytes of a search pattern; command lines hold more, patterns need far less.
pub const MAX_PATTERN: usize = 16 << 10;

/// Bytes that a search expression may compile to, and that its lazily built
/// automaton may take in each thread (the regex crate's own defaults: 10 and 2 MiB).
pub const MAX_REGEX: usize = 16 << 20;

/// Byte ranges that an expression over UTF-16 may be made of; `\w` is 1,500.
pub const MAX_UTF16_RANGES: usize = 1 << 18;

/// Files looked at below one `--symbols` directory.
pub const MAX_SYMBOL_FILES: usize = 1 << 16;

/// Warnings kept with their text; more of one code are only counted.
pub const MAX_WARNINGS_PER_CODE: usize = 8;

/// Bytes of one note that are kept or parsed as a string.
pub const MAX_NOTE_STRING: usize = 4096;

/// Ranges of code followed, and nodes of the map of them: real processes have
/// a few hundred.
pub const MAX_CODE_RANGES: usize = 1 << 16;

/// Things wrong with the ranges of code that are told; a map with so many
/// circles is no longer followed.
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

/// Streams of one metadata root; real ones have 5, or 6 with a PDB's.
pub const MAX_METADATA_STREAMS: usize = 32;

/// Bytes of one module's metadata: the largest known have under 20 MiB.
pub const MAX_METADATA: u64 = 64 << 20;

/// Types nested in one another, followed outwards.
pub const MAX_TYPE_NESTING: usize = 64;

/// Generic parameters of one type or method: their numbers have 16 bits, real
/// ones are under 20.
pub const MAX_GENERIC_PARAMS: usize = 1024;

/// Types within types of one signature. Compilers give up long before; what is
/// deeper would cost stack.
pub const MAX_SIGNATURE_DEPTH: u32 = 64;

/// Types in one signature: a method has at most 65,534 locals.
pub const MAX_SIGNATURE_NODES: u32 = 1 << 16;

/// Methods listed in all, and their funclets.
pub const MAX_METHODS: usize = 1 << 24;

/// Bytes of names of all methods listed: a million of 130 bytes.
pub const MAX_METHOD_NAMES: usize = 128 << 20;

/// Bytes of one path of the runtime's (UTF-16).
pub const MAX_PATH_BYTES: usize = 8 << 10;

/// Bytes of addresses read from standard input.
pub const MAX_ADDRESS_INPUT: u64 = 256 << 20;

/// Bytes of one portable PDB, packed or not: the largest known have under 20 MiB.
pub const MAX_PDB: u64 = 256 << 20;

/// Entries of one PE file's debug directory; real ones have up to 5.
pub const MAX_DEBUG_ENTRIES: usize = 64;

/// Bytes of one line of a tool's text that are looked at; longer lines pass as
/// they are. A folded stack of 127 frames with C++ names is some 100 KiB.
pub const MAX_TEXT_LINE: usize = 1 << 20;

/// Bytes read ahead to tell which tool wrote a text, and how perf printed.
pub const MAX_TEXT_PROBE: usize = 256 << 10;

/// Distinct addresses of a text that are listed and remembered. A day of perf
/// at 99 Hz on 8 cores has some 10,000.
pub const MAX_TEXT_ADDRESSES: usize = 1 << 20;

/// Bytes of names taken from a text (files, symbols, folded frames) that are kept.
pub const MAX_TEXT_NAMES: usize = 256 << 20;

/// Mappings taken from a text (PERF_RECORD_MMAP2).
pub const MAX_TEXT_MAPPINGS: usize = 1 << 20;

/// Mappings of one file that are tried for an offset; doublemapped code of a
/// large service has some hundred.
pub const MAX_MAPPINGS_TRIED: usize = 4096;

/// Frames of one stack of a text; the kernel stops at 127 as shipped, gdb at
/// none, and a runaway recursion has 100,000.
pub const MAX_TEXT_DEPTH: usize = 1 << 18;

/// Frames in all distinct folded stacks together (4 bytes each).
pub const MAX_FOLDED_FRAMES: usize = 64 << 20;

/// Symbols read from the tables of one module; a browser with all of its own
/// has a million and a half.
pub const MAX_MODULE_SYMBOLS: usize = 4 << 20;

/// Entries of symbol, hash and relocation tables read for all modules together,
/// as one table may be mapped as many modules; 64 bytes each where all are kept.
pub const MAX_SYMBOLS: usize = 8 << 20;

/// Bytes of one symbol's name that are read and demangled; templates reach some
/// thousands.
pub const MAX_SYMBOL_NAME: usize = 16 << 10;

/// Bytes of one demangled name: a mangled one may refer back to its own parts
/// and so double with each of its bytes.
pub const MAX_DEMANGLED: usize = 64 << 10;

/// Bytes of one unpacked .gnu_debugdata (glibc's takes 300 KiB), and of the
/// memory that unpacking it may take.
pub const MAX_DEBUGDATA: usize = 64 << 20;

/// Bytes of .gnu_debugdata unpacked for all modules together.
pub const MAX_ALL_DEBUGDATA: usize = 512 << 20;

/// How far a symbol without a size is believed to reach where no section table
/// says what ends there: hand-written code is short.
pub const MAX_UNSIZED_SYMBOL: u64 = 4096;

/// Frames of one thread's stack. A stack of 8 MiB that overflowed has some
/// 170,000 of the smallest.
pub const MAX_STACK_FRAMES: usize = 1 << 18;

/// Frames of all threads together.
pub const MAX_ALL_FRAMES: usize = 1 << 21;

/// Frames of one stack that are followed to tell what its thread does: the runtime's
/// and the framework's waits take up to some 40.
pub const MAX_DOING_FRAMES: usize = 128;

/// Words of a stack that are looked through for one return address.
pub const MAX_SCAN_WORDS: usize = 512;

/// Return addresses of one stack that are found by looking through words.
pub const MAX_SCANS: usize = 16;

/// Bytes of one module's unwind data; that of the largest browsers is 30 MiB.
pub const MAX_EH_FRAME: u64 = 128 << 20;

/// Operations of one expression of unwind data.
pub const MAX_EXPRESSION_STEPS: u32 = 1000;

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

/// Bytes of the frames that wait for a lock that are looked through for it:
/// those of the runtime and of Monitor have some hundred each.
pub const MAX_LOCK_FRAMES: u64 = 64 << 10;

/// UTF-16 units of a thread's name.
pub const MAX_THREAD_NAME: usize = 256;

/// Slots of the runtime's table for debuggers; 3.1 has 177.
pub const MAX_DAC_SLOTS: u64 = 512;

/// Buckets in one map of handle tables (INITIAL_HANDLE_TABLE_ARRAY_SIZE).
pub const MAX_HANDLE_BUCKETS: u64 = 10;

/// Tables in one such bucket: one for each GC heap.
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

/// Bytes of one image's notes read for its build-id, which stands among the first.
pub const MAX_IMAGE_NOTES: u64 = 64 << 10;

/// Bytes of a contract descriptor's JSON (10.0.14 has 10,563 bytes, newer ones about 90 KiB).
pub const MAX_DESCRIPTOR: u32 = 1 << 20;

/// Pointers beside a contract descriptor (10.0.14 has 24).
pub const MAX_DESCRIPTOR_POINTERS: u32 = 4096;

/// Types, globals and fields of a type taken from one descriptor: real ones have some
/// hundred.
pub const MAX_DESCRIPTOR_ENTRIES: usize = 4096;

/// Conflicts of claims that `check` lists; more say the same.
pub const MAX_CONFLICTS: usize = 100;

/// Claims over one address that are compared with each other: a few in any real
/// map, and a bound for a core that was made to have a million.
pub const MAX_OPEN_CLAIMS: usize = 256;

/// Bytes of TLS and control block above a thread's own stack: static TLS is some KiB.
pub const MAX_ABOVE_STACK: u64 = 16 << 20;

/// Threads that are asked where a control block keeps its fields: all agree.
pub const MAX_VOTERS: usize = 256;

/// Bytes of one module's writable data looked through for malloc's main arena.
pub const MAX_ALLOCATOR_DATA: u64 = 64 << 20;

/// Files of a text that are told apart in its list.
pub const MAX_TEXT_FILES: usize = 1 << 16;

/// Bytes of a C library's read-only data searched for its version text.
pub const MAX_BANNER_SEARCH: u64 = 8 << 20;

/// Note segments read; every producer writes one.
pub const MAX_NOTE_SEGMENTS: usize = 64;

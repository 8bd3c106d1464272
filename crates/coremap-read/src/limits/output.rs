//! Limits for searches, for text of other tools, and for what analyses list.

/// Maximum bytes scanned for pointers for a finding of `summary`. Takes about ten milliseconds.
pub const MAX_FINDING_SCAN: u64 = 64 << 20;

/// Maximum number of pages of anonymous memory that `summary` reads: 4 MiB, a few milliseconds. They are spread over
/// blocks of the sizes with the most bytes.
pub const MAX_FINDING_PAGES: usize = 1024;

/// Bytes on either side of an address that `whatis` reads to describe the content. Takes two milliseconds per address,
/// and shows where the content changes in most programs.
pub const MAX_CONTENT_WINDOW: u64 = 1 << 20;

/// Maximum number of sizes of anonymous blocks that `summary` samples, those with the most bytes.
pub const MAX_FINDING_SIZES: usize = 8;

/// Maximum number of words in the managed heap that point to native memory, at 16 bytes each.
pub const MAX_HELD: usize = 4 << 20;

/// Maximum number of malloc blocks whose first owner is stored, at some 24 bytes each. For later blocks, no row is
/// named that shares them.
pub const MAX_SHARED_BLOCKS: usize = 4 << 20;

/// Maximum size of a baseline in bytes. A summary has about 40 kinds of 200 bytes, and a few findings.
pub const MAX_BASELINE: u64 = 16 << 20;

/// Maximum size of a `report` page in bytes. Mail accepts it, and a browser shows it in a second.
pub const MAX_PAGE: u64 = 8_000_000;

/// Maximum size of a page that `check --report` reads, in bytes.
pub const MAX_PAGE_READ: u64 = 64 << 20;

/// Maximum number of malloc blocks for which `whatis` counts similar ones. Each takes a pass over all blocks.
pub const MAX_ALIKE_QUERIES: usize = 64;

/// Maximum number of words that `refs` stores, at about 250 bytes each. All are counted.
pub const MAX_REFS: usize = 1 << 18;

/// Maximum bytes of the names of all listed types. 100,000 real ones have about 10 MiB.
pub const MAX_NAMES: usize = 64 << 20;

/// Maximum number of objects in a list. The rest are counted.
pub const MAX_LISTED_OBJECTS: usize = 1 << 20;

/// Maximum number of array elements shown.
pub const MAX_SHOWN_ELEMENTS: u64 = 32;

/// Maximum number of UTF-16 units shown of a string by `object`. Other commands show about 256.
pub const MAX_SHOWN_TEXT: usize = 64 << 10;

/// Maximum number of struct fields shown of one object. 32 elements that are big structs have some thousand.
pub const MAX_SHOWN_ROWS: usize = 1 << 16;

/// Maximum number of field types stored while an object is shown.
pub const MAX_SHOWN_STRUCTS: usize = 1 << 16;

/// Maximum number of array dimensions. The runtime allows 32.
pub const MAX_ARRAY_RANK: u32 = 32;

/// Maximum number of threads whose value of a thread static is shown.
pub const MAX_SHOWN_THREADS: usize = 1 << 14;

/// Maximum number of frames shown of an exception's stack trace.
pub const MAX_SHOWN_FRAMES: u64 = 1 << 12;

/// Maximum number of methods shown of a delegate.
pub const MAX_SHOWN_METHODS: u64 = MAX_SHOWN_ELEMENTS;

/// Maximum number of entries shown of a collection.
pub const MAX_SHOWN_ENTRIES: usize = MAX_SHOWN_ELEMENTS as usize;

/// Maximum number of dictionary slots searched for the first entries.
pub const MAX_SLOTS_TRIED: u64 = 1 << 12;

/// Maximum nesting depth of structs whose fields are shown.
pub const MAX_SHOWN_NESTING: u32 = 8;

/// Maximum number of dominators shown for an object, nearest first. In a linked list, every earlier node is one.
pub const MAX_SHOWN_DOMINATORS: usize = 32;

/// Maximum number of rows that `--top` accepts.
pub const MAX_TOP: usize = 1 << 16;

/// Maximum number of paths from roots shown by default.
pub const MAX_PATHS: usize = 32;

/// Maximum number of paths from roots shown if all are requested; see [`MAX_PATHS`].
pub const MAX_ALL_PATHS: usize = 1 << 12;

/// Maximum number of C libraries whose data is searched for a version text.
pub const MAX_BANNERS: usize = 4;

/// Maximum number of malloc blocks whose written pages are counted, at 16 bytes each. Blocks of a page or larger are
/// counted: that many have 16 GiB.
pub const MAX_MEASURED_BLOCKS: usize = 4 << 20;

/// Maximum number of distinct chunk sizes counted. A program that leaks has a few thousand.
pub const MAX_CHUNK_SIZES: usize = 1 << 20;

/// Maximum number of chunks listed.
pub const MAX_LISTED_CHUNKS: usize = 64 << 20;

/// Maximum number of hits stored by a search. The answer says how many more there are.
pub const MAX_HITS: usize = 1 << 20;

/// Maximum number of `scan-secrets` hits in 4 MiB of memory. Only a file that contains nothing but addresses has more.
pub const MAX_SECRETS: usize = 1 << 16;

/// Maximum number of secrets of one kind that are compared with each other, at 8 bytes each and as much again for their
/// table.
pub const MAX_DISTINCT_SECRETS: usize = 1 << 20;

/// Maximum length of a regular expression match that is found across a block or mapping border, in bytes.
pub const MAX_MATCH: usize = 4096;

/// Maximum length of a search pattern in bytes. Command lines allow more, patterns need far less.
pub const MAX_PATTERN: usize = 16 << 10;

/// Maximum size of a compiled search expression, and of its lazily built automaton in each thread, in bytes. (The regex
/// crate's defaults are 10 and 2 MiB.)
pub const MAX_REGEX: usize = 16 << 20;

/// Maximum number of byte ranges in an expression over UTF-16. `\w` has 1,500.
pub const MAX_UTF16_RANGES: usize = 1 << 18;

/// Maximum bytes of the names of all listed methods: a million of 130 bytes.
pub const MAX_METHOD_NAMES: usize = 128 << 20;

/// Maximum bytes of addresses read from standard input.
pub const MAX_ADDRESS_INPUT: u64 = 256 << 20;

/// Maximum length of a line of a tool's text that is processed, in bytes. Longer lines are printed unchanged. A folded
/// stack of 127 frames with C++ names has about 100 KiB.
pub const MAX_TEXT_LINE: usize = 1 << 20;

/// Maximum bytes read ahead to recognise which tool wrote a text, and perf's format.
pub const MAX_TEXT_PROBE: usize = 256 << 10;

/// Maximum number of distinct addresses of a text that are listed and cached. A day of perf at 99 Hz on 8 cores has
/// about 10,000.
pub const MAX_TEXT_ADDRESSES: usize = 1 << 20;

/// Maximum bytes stored of names from a text: files, symbols, folded frames.
pub const MAX_TEXT_NAMES: usize = 256 << 20;

/// Maximum number of mappings read from a text (PERF_RECORD_MMAP2).
pub const MAX_TEXT_MAPPINGS: usize = 1 << 20;

/// Maximum number of mappings of one file tried for an offset. Double-mapped code of a large service has about a
/// hundred.
pub const MAX_MAPPINGS_TRIED: usize = 4096;

/// Maximum number of frames in one stack of a text. The kernel's default limit is 127, gdb has none, and a runaway
/// recursion has 100,000.
pub const MAX_TEXT_DEPTH: usize = 1 << 18;

/// Maximum number of frames in all distinct folded stacks (4 bytes each).
pub const MAX_FOLDED_FRAMES: usize = 64 << 20;

/// Maximum number of frames of a stack followed to find a thread's activity. Waits of the runtime and the framework
/// have up to about 40.
pub const MAX_DOING_FRAMES: usize = 128;

/// Maximum bytes of the frames of a waiting thread that are searched for its lock. Frames of the runtime and of Monitor
/// have some hundred bytes each.
pub const MAX_LOCK_FRAMES: u64 = 64 << 10;

/// Maximum number of distinct files of a text in its list.
pub const MAX_TEXT_FILES: usize = 1 << 16;

/// Maximum bytes of a C library's read-only data searched for its version text.
pub const MAX_BANNER_SEARCH: u64 = 8 << 20;

/// Maximum number of bytes that `whatis` shows. Use a debugger for more.
pub const MAX_SHOWN_BYTES: usize = 1 << 20;

/// Number of the latest mappings of a file with which a new one is compared. perf reports a
/// growing mapping again at once.
pub const MAX_REPEATED_MAPPINGS: usize = 64;

/// Maximum number of header words read of one perf sample: name, IDs, CPU, time.
pub const MAX_HEADER_WORDS: usize = 64;

/// Maximum offset of code in a program file. A larger number is an address.
pub const MAX_CODE_OFFSET: u64 = 1 << 32;

/// Maximum bytes of a managed or malloc heap that `dump --for all` copies. A walk of objects takes about ten seconds
/// per GiB, during which the process is stopped.
pub const MAX_DUMPED_HEAP: u64 = 256 << 20;

/// Maximum bytes read of a recording: 16,000 samples of about 8 KiB. Each row of a sample takes three times its text in
/// memory.
pub const MAX_RECORDING: u64 = 128 << 20;

/// Maximum length of a line of a recording, in bytes. The first sample has the names of 400 types, each of up to 16
/// KiB.
pub const MAX_RECORDING_LINE: u64 = 16 << 20;

/// Maximum number of samples in a recording: a day at one a second.
pub const MAX_SAMPLES: usize = 1 << 17;

/// Maximum number of types, and of block sizes, remembered while recording.
pub const MAX_RECORDED_ROWS: usize = 1 << 20;

/// Maximum number of names of kinds, findings and warnings in a recording. Each is stored once.
pub const MAX_RECORDED_WORDS: usize = 1 << 10;

/// Maximum depth of a path in a retention profile. Deeper steps are merged. Flame graphs show about a hundred rows.
pub const MAX_PROFILE_DEPTH: u32 = 100;

/// Maximum number of distinct paths in a retention profile, at about a hundred bytes each.
pub const MAX_PROFILE_PATHS: usize = 1 << 22;

/// Paths with less than one in this many of all bytes are merged. A picture has no space for them.
pub const PROFILE_MERGE_DIVISOR: u64 = 100_000;

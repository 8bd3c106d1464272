//! Searches, texts of other tools, and what analyses list.

/// Bytes read for pointers to give `summary` a finding: some ten milliseconds.
pub const MAX_FINDING_SCAN: u64 = 64 << 20;

/// Pages that `summary` looks at of anonymous memory, all together, however much there is: 4 MiB, a few
/// milliseconds. They are spread over the blocks of the sizes that have most bytes.
pub const MAX_FINDING_PAGES: usize = 1024;

/// Bytes on either side of an address that `whatis` looks at to tell what fills memory there: two milliseconds an
/// address, and more than enough to see where it changes in most programs.
pub const MAX_CONTENT_WINDOW: u64 = 1 << 20;

/// Sizes of anonymous blocks that `summary` looks at: those of most bytes.
pub const MAX_FINDING_SIZES: usize = 8;

/// Words of the managed heap that lead to native memory, at 16 bytes each.
pub const MAX_HELD: usize = 4 << 20;

/// Bytes of a baseline: a summary has some 40 kinds of 200 bytes, and a few findings.
pub const MAX_BASELINE: u64 = 16 << 20;

/// Bytes of a page of `report`: mail takes it, and a browser shows it in a second.
pub const MAX_PAGE: u64 = 8_000_000;

/// Bytes of a page that `check --report` reads.
pub const MAX_PAGE_READ: u64 = 64 << 20;

/// Blocks of malloc for which `whatis` counts those that are alike: a pass over all blocks for each.
pub const MAX_ALIKE_LOOKS: usize = 64;

/// Words that `refs` remembers, at some 250 bytes each; all are counted.
pub const MAX_REFS: usize = 1 << 18;

/// Bytes of the names of all types listed: 100,000 real ones have some 10 MiB.
pub const MAX_NAMES: usize = 64 << 20;

/// Objects that one list has; the rest is counted.
pub const MAX_LISTED_OBJECTS: usize = 1 << 20;

/// Elements of an array that are shown.
pub const MAX_SHOWN_ELEMENTS: u64 = 32;

/// UTF-16 units of a string that `object` shows; of others, some 256.
pub const MAX_SHOWN_TEXT: usize = 64 << 10;

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

/// Objects told that dominate the one asked for, from the nearest on: in a list
/// there are as many as nodes.
pub const MAX_SHOWN_DOMINATORS: usize = 32;

/// Rows that `--top` may ask for.
pub const MAX_TOP: usize = 1 << 16;

/// Paths from roots that are told where not all are asked for, and where they are.
pub const MAX_PATHS: usize = 32;

/// See [`MAX_PATHS`].
pub const MAX_ALL_PATHS: usize = 1 << 12;

/// C libraries whose data is searched for its version text.
pub const MAX_BANNERS: usize = 4;

/// Chunk sizes that blocks are counted by; a program that leaks has a few thousand.
pub const MAX_CHUNK_SIZES: usize = 1 << 20;

/// Chunks listed.
pub const MAX_LISTED_CHUNKS: usize = 64 << 20;

/// Hits kept by a search; more are counted and reported, not kept.
pub const MAX_HITS: usize = 1 << 20;

/// Hits of `scan-secrets` in 4 MiB of memory; a file of nothing but addresses has more.
pub const MAX_SECRETS: usize = 1 << 16;

/// Secrets of one kind of which is known whether they differ: 8 bytes each, and as many again for their table.
pub const MAX_DISTINCT_SECRETS: usize = 1 << 20;

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

/// Bytes of names of all methods listed: a million of 130 bytes.
pub const MAX_METHOD_NAMES: usize = 128 << 20;

/// Bytes of addresses read from standard input.
pub const MAX_ADDRESS_INPUT: u64 = 256 << 20;

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

/// Frames of one stack that are followed to tell what its thread does: the runtime's
/// and the framework's waits take up to some 40.
pub const MAX_DOING_FRAMES: usize = 128;

/// Bytes of the frames that wait for a lock that are looked through for it:
/// those of the runtime and of Monitor have some hundred each.
pub const MAX_LOCK_FRAMES: u64 = 64 << 10;

/// Files of a text that are told apart in its list.
pub const MAX_TEXT_FILES: usize = 1 << 16;

/// Bytes of a C library's read-only data searched for its version text.
pub const MAX_BANNER_SEARCH: u64 = 8 << 20;

/// Bytes that `whatis` shows at most; more is for a debugger.
pub const MAX_SHOWN_BYTES: usize = 1 << 20;

/// Latest mappings of a file that a newly told one is looked for among: one that grows
/// is told again at once.
pub const MAX_TOLD_AGAIN: usize = 64;

/// Words of the header of one sample of perf that are looked at: name, ids, cpu, time.
pub const MAX_HEADER_WORDS: usize = 64;

/// Offset in a program file beyond which no code is: what is larger is an address.
pub const MAX_CODE_OFFSET: u64 = 1 << 32;

/// Bytes of a heap, managed or malloc's, that `dump --for all` keeps: a walk of objects takes some ten seconds for each GiB, and the
/// process stands still for it.
pub const MOST_HEAP_KEPT: u64 = 256 << 20;

/// Bytes that are read of a recording: a look has some 8 KiB, and this is 16,000 of them. Each row of a look takes three
/// times its text.
pub const MAX_RECORDING: u64 = 128 << 20;

/// Bytes of one line of a recording: the first look has the names of 400 types, of which one may have 16 KiB.
pub const MAX_RECORDING_LINE: u64 = 16 << 20;

/// Looks of one recording: a day of one a second.
pub const MAX_LOOKS: usize = 1 << 17;

/// Types, or sizes of blocks, that are remembered while a recording is made.
pub const MAX_RECORDED_ROWS: usize = 1 << 20;

/// Names of kinds, findings and warnings that a recording has: each is kept once.
pub const MAX_RECORDED_WORDS: usize = 1 << 10;

/// Steps of a path in a profile of what keeps the heap: deeper ones are told together. Flame graphs show some hundred rows.
pub const MAX_PROFILE_DEPTH: u32 = 100;

/// Different paths that are told apart there, at some hundred bytes each.
pub const MAX_PROFILE_PATHS: usize = 1 << 22;

/// A path that has less than one in so many of all bytes is told with others: no picture has a place for it.
pub const LEAST_PROFILE_PATH: u64 = 100_000;

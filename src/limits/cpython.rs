//! CPython: interpreters, threads, objects, arenas.

/// Interpreters of one process; each has some hundred kilobytes of its own.
pub const MAX_PY_INTERPRETERS: usize = 1 << 12;

/// Threads of all interpreters.
pub const MAX_PY_THREADS: usize = 1 << 20;

/// Frames of all threads and coroutines that are followed in one answer.
pub const MAX_PY_FRAMES: usize = 1 << 22;

/// Chunks of memory for frames, of all threads: 16 KiB each.
pub const MAX_PY_CHUNKS: usize = 1 << 22;

/// Bytes of such a chunk: twice as many as before until a frame fits, and no function has gigabytes of variables.
pub const MAX_PY_CHUNK: u64 = 1 << 32;

/// Tasks of asyncio.
pub const MAX_PY_TASKS: usize = 1 << 22;

/// Variables and operands of one frame that are looked at.
pub const MAX_PY_SLOTS: u64 = 1 << 12;

/// Bytes of line tables that are read in one answer: a large function's has some ten kilobytes.
pub const MAX_PY_LINE_TABLES: u64 = 1 << 32;

/// Types met; large applications have some ten thousand.
pub const MAX_PY_TYPES: usize = 1 << 20;

/// Bytes of an instance without its items: `tp_basicsize` of no type comes near.
pub const MAX_PY_BASIC_SIZE: u64 = 1 << 24;

/// Bytes of one item (`tp_itemsize`): PyMemberDef's 40 are the most in CPython itself.
pub const MAX_PY_ITEM_SIZE: u64 = 1 << 16;

/// Types above one, from it to `object`: 40 are many.
pub const MAX_PY_BASES: usize = 1 << 10;

/// Bytes of a name of a type, module, function or file; longer ones are cut.
pub const MAX_PY_NAME: usize = 1 << 12;

/// Entries of a dict that are looked at to find one name.
pub const MAX_PY_LOOKUP: u64 = 1 << 20;

/// Bytes of an integer that are read for its value: more digits than one looks at.
pub const MAX_PY_DIGITS: u64 = 1 << 10;

/// Entries of obmalloc's array of arenas: of 1 MiB each, 16 TiB.
pub const MAX_PY_ARENAS: u64 = 1 << 24;

/// Words of a module's data that lead to what might be that array.
pub const MAX_PY_ARENA_ARRAYS: usize = 1 << 16;

/// Entries of that array that may be unused before the first one in use.
pub const MAX_PY_UNUSED_ARENAS: u64 = 1 << 12;

/// Objects in the lists of the collector, of all interpreters.
pub const MAX_PY_TRACKED: usize = 1 << 31;

/// Objects and blocks outside of the arenas.
pub const MAX_PY_OUTSIDE: usize = 1 << 28;

/// Blocks of one deque, and of all: each holds 64 objects.
pub const MAX_PY_DEQUE_BLOCKS: usize = 1 << 26;

/// Blocks of a pool: of 16 bytes each, 16 KiB hold a thousand.
pub const MAX_PY_POOL_BLOCKS: u64 = 1 << 11;

/// Global variables of all modules that are known by name.
pub const MAX_PY_GLOBALS: usize = 1 << 22;

/// Caches of function calls that are weighed for a finding: an application has some hundred.
pub const MAX_PY_WEIGHED: usize = 1 << 12;

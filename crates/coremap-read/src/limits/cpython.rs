//! Limits for CPython: interpreters, threads, objects, arenas.

/// Maximum number of interpreters in a process. Each takes some hundred kilobytes.
pub const MAX_PY_INTERPRETERS: usize = 1 << 12;

/// Maximum number of threads in all interpreters.
pub const MAX_PY_THREADS: usize = 1 << 20;

/// Maximum number of frames of threads and coroutines followed in one answer.
pub const MAX_PY_FRAMES: usize = 1 << 22;

/// Maximum number of frame chunks (data stack chunks, 16 KiB each) in all threads.
pub const MAX_PY_CHUNKS: usize = 1 << 22;

/// Maximum length of a frame chunk in bytes. Chunks double until a frame fits, and no function has gigabytes of
/// variables.
pub const MAX_PY_CHUNK: u64 = 1 << 32;

/// Maximum number of asyncio tasks.
pub const MAX_PY_TASKS: usize = 1 << 22;

/// Maximum number of children of `asyncio.gather` futures, and of tasks that wait for such a child, in all tasks
/// together. Each task may wait for a future with as many children as there are tasks.
pub const MAX_GATHERED: u64 = 1 << 20;

/// Maximum number of variables and operands read of one frame.
pub const MAX_PY_SLOTS: u64 = 1 << 12;

/// Maximum bytes of line tables read in one answer. A large function's table has about ten kilobytes.
pub const MAX_PY_LINE_TABLES: u64 = 1 << 32;

/// Maximum number of types. Large applications have about ten thousand.
pub const MAX_PY_TYPES: usize = 1 << 20;

/// Maximum `tp_basicsize` (an instance without its items) in bytes. No real type comes near.
pub const MAX_PY_BASIC_SIZE: u64 = 1 << 24;

/// Maximum `tp_itemsize` in bytes. The largest in CPython itself is PyMemberDef's 40.
pub const MAX_PY_ITEM_SIZE: u64 = 1 << 16;

/// Maximum number of base types from a type up to `object`. 40 are many.
pub const MAX_PY_BASES: usize = 1 << 10;

/// Maximum length of the name of a type, module, function or file, in bytes. Longer ones are cut.
pub const MAX_PY_NAME: usize = 1 << 12;

/// Maximum number of dict entries searched for one name.
pub const MAX_PY_LOOKUP: u64 = 1 << 20;

/// Maximum bytes of an integer read for its value, which is more digits than anyone reads.
pub const MAX_PY_DIGITS: u64 = 1 << 10;

/// Maximum number of entries in obmalloc's array of arenas: 16 TiB with arenas of 1 MiB.
pub const MAX_PY_ARENAS: u64 = 1 << 24;

/// Maximum number of pointers in a module's data that are tried as pointers to obmalloc's array of arenas.
pub const MAX_PY_ARENA_ARRAYS: usize = 1 << 16;

/// Maximum number of unused entries of obmalloc's array of arenas before the first one in use.
pub const MAX_PY_UNUSED_ARENAS: u64 = 1 << 12;

/// Maximum number of objects in the collector's lists, over all interpreters.
pub const MAX_PY_TRACKED: usize = 1 << 31;

/// Maximum number of objects and blocks outside the arenas.
pub const MAX_PY_OUTSIDE: usize = 1 << 28;

/// Maximum number of deque blocks, of one deque and of all. Each has 64 objects.
pub const MAX_PY_DEQUE_BLOCKS: usize = 1 << 26;

/// Maximum number of blocks in a pool. A pool of 16 KiB has about a thousand of 16 bytes.
pub const MAX_PY_POOL_BLOCKS: u64 = 1 << 11;

/// Maximum number of module globals whose names are stored.
pub const MAX_PY_GLOBALS: usize = 1 << 22;

/// Maximum number of function caches considered for a finding. An application has about a hundred.
pub const MAX_PY_WEIGHED: usize = 1 << 12;

/// Maximum size of a code object's exception table in bytes. Long generated functions have some 100 KiB.
pub const MAX_PY_EXCEPTION_TABLE: u64 = 1 << 20;

/// Maximum number of buckets, and of records, of `tracemalloc`'s table.
pub const MAX_PY_TRACES: u64 = 1 << 26;

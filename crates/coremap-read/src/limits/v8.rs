//! Limits for V8: its constants, pages, isolates, types, handles and frames.

/// Maximum number of constants (`v8dbg_`). Versions have up to 550.
pub const MAX_V8_CONSTANTS: usize = 1 << 14;

/// Maximum offset of a field of a V8 object, in bytes. The largest header has about 130.
pub const MAX_V8_FIELD_OFFSET: u64 = 1 << 12;

/// Maximum number of pages (256 KiB each): 256 GiB of heap.
pub const MAX_V8_PAGES: usize = 1 << 20;

/// Maximum number of isolates. Each worker has one.
pub const MAX_V8_ISOLATES: usize = 1 << 12;

/// Maximum number of maps that are remembered, with words that only look like references to one.
pub const MAX_V8_MAPS: usize = 1 << 24;

/// Maximum number of types. A program has some thousands of functions and constructors.
pub const MAX_V8_TYPES: usize = 1 << 20;

/// Maximum number of objects of one kind that the first walk remembers.
pub const MAX_V8_LISTED: usize = 1 << 24;

/// Maximum number of suspended calls of async functions.
pub const MAX_V8_PENDING: usize = 1 << 20;

/// Maximum number of blocks of global handles (256 each).
pub const MAX_V8_HANDLE_BLOCKS: usize = 1 << 20;

/// Maximum number of JavaScript frames of one thread. The default stack of 984 KiB has room for some 12,000.
pub const MAX_V8_FRAMES: usize = 1 << 16;

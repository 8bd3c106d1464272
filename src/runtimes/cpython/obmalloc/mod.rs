//! obmalloc, CPython's allocator of small blocks (Objects/obmalloc.c): arenas of pools, pools of blocks of one size.
//!
//! Structures are the same from 3.9 to 3.14: `arena_object` and `pool_header`. What follows from the size of an arena
//! (256 KiB with pools of 4 KiB up to 3.9; 1 MiB and 16 KiB since) is told by how many pools an arena says it has.

mod arenas;
pub(crate) mod pools;

pub(crate) use arenas::{ALIGNMENT, find};
pub use arenas::{Arena, Arenas};
pub use pools::PoolState;

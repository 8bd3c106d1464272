//! obmalloc, CPython's allocator of small blocks (Objects/obmalloc.c). Arenas are divided into pools, and pools into
//! blocks of one size.
//!
//! `arena_object` and `pool_header` are the same from 3.9 to 3.14. Arenas have 256 KiB with 4 KiB pools up to 3.9, and
//! 1 MiB with 16 KiB pools since. The number of pools in an arena shows which of the two it is.

mod arenas;
pub(crate) mod pools;

pub(crate) use arenas::{ALIGNMENT, find};
pub use arenas::{Arena, Arenas};
pub use pools::PoolState;

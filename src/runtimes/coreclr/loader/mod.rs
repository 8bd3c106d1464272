//! What the loader allocates from: loader heaps of every loader allocator, and
//! the memory for code that they and the JIT share.

mod executable_memory;
mod heaps;

pub(crate) use executable_memory::executable_memory;
pub use heaps::{AllocatorHeaps, Collectible, HeapBlock};
pub(super) use heaps::{BlockWalk, LoaderError, domain_assemblies, manifest_module, read};

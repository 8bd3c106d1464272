//! Memory of the loader: loader heaps of each loader allocator, and the executable memory that loader and JIT share.

mod executable_memory;
mod heaps;

pub(crate) use executable_memory::executable_memory;
pub use heaps::{AllocatorHeaps, Collectible, HeapBlock};
pub(super) use heaps::{BlockWalk, LoaderError, domain_assemblies, manifest_module, read};

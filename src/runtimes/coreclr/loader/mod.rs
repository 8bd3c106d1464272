//! Memory of the loader: loader heaps of each loader allocator, and the executable memory that loader and JIT share.

mod executable_memory;
mod heaps;

pub use executable_memory::{CodeBlock, CodeView, ExecutableMemory, executable_memory};
pub use heaps::{AllocatorHeaps, Collectible, HeapBlock};
pub(super) use heaps::{BlockWalk, LoaderError, domain_assemblies, manifest_module, read};

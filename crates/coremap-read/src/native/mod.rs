//! Native code and memory: thread stacks, malloc heaps, symbols and unwinding. `foreign` recognises the memory of other
//! allocators, runtimes and libraries. Managed code and heaps are in `runtimes`.

pub mod foreign;
pub mod last_words;
pub mod libc;
pub mod locks;
pub mod malloc;
pub(crate) mod obmalloc;
pub(crate) mod placed;
pub mod signal_frames;
pub mod stack_records;
pub mod stacks;
pub mod symbols;
pub mod syscalls;
pub mod unwind;

pub use stacks::{StackState, ThreadStack};
pub use symbols::{NativeSymbol, NativeSymbols, source_lines, thread_local};

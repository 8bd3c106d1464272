//! Native code and what the C library knows of its own memory: thread stacks, malloc's heaps,
//! names of functions, unwinding; and whose memory it is where neither is.

pub(crate) mod foreign;
pub mod libc;
pub mod malloc;
pub(crate) mod obmalloc;
pub(crate) mod placed;
pub mod signal_frames;
pub mod stack_records;
pub mod stacks;
pub mod symbols;
pub mod unwind;

pub use stacks::{StackState, ThreadStack};
pub use symbols::{NativeSymbol, NativeSymbols};

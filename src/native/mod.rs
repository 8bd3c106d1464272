//! What the C library knows of its own memory: thread stacks and malloc's heaps.

pub mod libc;
pub mod malloc;
pub mod signal_frames;
pub mod stack_records;
pub mod stacks;
pub mod unwind;

pub use stacks::{StackState, ThreadStack};

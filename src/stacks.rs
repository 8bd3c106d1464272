//! Thread stacks: where they are, and their frames.

pub use crate::native::stacks::{Lost, StackState, Stacks, ThreadStack};
pub use crate::native::unwind::{End, Trust};
pub use crate::stackwalk::Walker;

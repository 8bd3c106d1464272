//! JavaScript stacks: frames by their frame pointers, with function, line and column.
//!
//! All frames of generated code have a frame pointer. The word below it is a context, in frames of JavaScript functions,
//! or the type of the frame. An isolate stores the last frame from which generated code called C++ (c_entry_fp), and each
//! frame through which C++ called generated code stores the one before. Sources: frame-constants.h, frames.cc.

mod as_code;
mod baseline;
mod frames;
mod positions;

pub(super) use as_code::{Code, marks};
pub(super) use frames::{FrameRecord, Stacks, builtins};

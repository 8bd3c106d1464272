//! JavaScript stacks: frames by their frame pointers, with function, line and column.
//!
//! All frames of generated code have a frame pointer. In a JavaScript function's frame, the word below the frame
//! pointer is a context. In other frames, it is the frame's type. An isolate stores the last frame from which generated
//! code called C++ (c_entry_fp). Each frame through which C++ called generated code stores the previous one. Sources:
//! frame-constants.h, frames.cc.

mod as_code;
mod baseline;
mod frames;
mod positions;

pub(super) use as_code::{Code, marks};
pub(super) use frames::{FrameRecord, Stacks, builtins};

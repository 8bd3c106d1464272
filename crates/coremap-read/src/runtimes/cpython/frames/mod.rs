//! Python frames, and the code that they run.
//!
//! | version | a thread's frames | how calls from C are recognised |
//! |---|---|---|
//! | 3.9, 3.10 | PyFrameObject, from `tstate.frame` by `f_back` | each Python frame has its own C frame |
//! | 3.11 | `_PyInterpreterFrame`, from `tstate.cframe.current_frame` | `is_entry` |
//! | 3.12 and later | the same; from `tstate.current_frame` since 3.13 | a shim: a frame without code, on the C stack |
//!
//! The evaluation loop, `_PyEval_EvalFrameDefault`, is C code. Up to 3.10 a C frame of it runs one Python frame. Since
//! 3.11 it also runs all frames that this one calls. Each run has a structure on the C stack (`_PyCFrame`, or a shim).
//! Its address identifies the C frame, even without symbols.
//!
//! | file | contents |
//! |---|---|
//! | `chain` | the frames of a thread, in runs |
//! | `code` | code objects: names, files |
//! | `data_stack` | the memory of frames, and frames whose links are not in the core |
//! | `lines` | from an instruction to its line |
//! | `as_code` | the interface for stack walks |

mod as_code;
mod chain;
mod code;
mod data_stack;
mod lines;

pub(super) use as_code::PyCode;
pub(super) use chain::{PyFrame, PyRun, frame_at, stack};
pub(super) use code::{Codes, is_of_the_library};
pub(super) use data_stack::chunks;

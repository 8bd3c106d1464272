//! Frames of Python code, and the code that they run.
//!
//! | version | frames of a thread | how calls from C are told |
//! |---|---|---|
//! | 3.9, 3.10 | PyFrameObject, from `tstate.frame` by `f_back` | each Python frame has a C frame |
//! | 3.11 | `_PyInterpreterFrame`, from `tstate.cframe.current_frame` | `is_entry` |
//! | 3.12 on | the same; from 3.13 on from `tstate.current_frame` | a frame of no code, on the C stack |
//!
//! The evaluation loop is C code: `_PyEval_EvalFrameDefault` runs one Python frame (up to 3.10), or one and all that it
//! calls (3.11 on). What the frames of a run lie in on the C stack (`_PyCFrame`, the frame of no code) tells which C frame
//! runs them, whatever symbols there are.
//!
//! | file | does |
//! |---|---|
//! | `chain` | frames of a thread, in runs |
//! | `code` | code objects: names, files |
//! | `data_stack` | memory that frames lie in, and frames there whose callers are not in the core |
//! | `lines` | from an instruction to its line |
//! | `as_code` | all that for stacks |

mod as_code;
mod chain;
mod code;
mod data_stack;
mod lines;

pub(super) use as_code::PyCode;
pub(super) use chain::{PyFrame, PyRun, frame_at, stack};
pub(super) use code::{Codes, is_of_the_library};
pub(super) use data_stack::chunks;

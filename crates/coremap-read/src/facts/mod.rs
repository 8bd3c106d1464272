//! Facts that the readers of a process return, as plain data: a runtime, a thread and its frames, an object, a finding.
//!
//! Reports contain these structs as they are, so their field names are the JSON contract. They are below the readers:
//! a runtime returns facts and names no report. Users of the library find them in [`crate::report`].

mod code;
mod executor;
mod finding;
mod last_words;
mod name;
mod object;
mod runtime;
mod threads;
mod timer;

pub use code::InlinedRow;
pub use executor::{ExecutorRow, QueuedRow};
pub use finding::{Finding, HeldObject, Severity};
pub use last_words::{InvolvedBlockRow, LastWordsRow, OperandRow};
pub use name::Name;
pub use name::Shown;
pub use object::{
    CallRow, CollectionDetail, DelegateDetail, DimensionRow, ElementRow, EntryRow, ExceptionDetail, FieldRow,
    ObjectReport, ThreadValueRow, TraceRow,
};
pub use runtime::RuntimeRow;
pub use threads::FrameNames;
pub use threads::{FrameRow, HeldRow, SyscallRow, ThreadRow, ThrownRow, WaitOwnerRow, WaitRow};
pub use timer::TimerRow;

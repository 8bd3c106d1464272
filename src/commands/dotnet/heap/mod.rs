//! `heap`: the GC's segments or regions, and the runtime's loader heaps.

mod analysis;
mod report;
mod table;

pub use analysis::heap;
pub(in crate::commands::dotnet) use analysis::loader_rows;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(in crate::commands) const COMMAND: Command = of_runtime(
    "heap",
    &[answer::<HeapReport>],
    "Show the segments or regions of the managed heap, by GC heap and generation",
);

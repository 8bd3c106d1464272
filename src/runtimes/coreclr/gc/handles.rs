//! The handle table of CoreCLR, read once.

use crate::process::Process;
use crate::runtimes::clr_gc::{HandleList, SegmentList, handles_in, segments};
use crate::runtimes::coreclr::runtime::Runtime;

/// Ranges of all segments of all handle tables, and what broke the walk off, if
/// anything did.
pub(in crate::runtimes::coreclr) fn read<'r>(process: &Process, runtime: &'r Runtime) -> &'r SegmentList {
    runtime.read.handle_segments.get_or_init(|| segments(process, runtime.gc(process)))
}

/// All handles that lead to an object, by address, and what could not be read.
/// Read once.
pub(crate) fn handles<'r>(process: &Process, runtime: &'r Runtime) -> &'r HandleList {
    runtime.read.handles.get_or_init(|| handles_in(process, runtime.gc(process), read(process, runtime)))
}

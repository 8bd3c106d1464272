//! The handle table of CoreCLR, cached.

use crate::process::Process;
use crate::runtimes::clr_gc::{HandleList, SegmentList, handles_in, segments};
use crate::runtimes::coreclr::runtime::Runtime;

/// Segments of all handle tables. Cached.
pub(in crate::runtimes::coreclr) fn read<'r>(process: &Process, runtime: &'r Runtime) -> &'r SegmentList {
    runtime.cache.handle_segments.get_or_init(|| segments(process, runtime.gc(process)))
}

/// Handles that refer to an object, by address, with messages about what could not be read. Cached.
pub(crate) fn handles<'r>(process: &Process, runtime: &'r Runtime) -> &'r HandleList {
    runtime.cache.handles.get_or_init(|| handles_in(process, runtime.gc(process), read(process, runtime)))
}

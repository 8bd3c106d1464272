//! The collector's own record of the last allocation that failed.
//!
//! Source: src/coreclr/gc: gcinterface.dac.h (oom_history, oom_reason), gcinterface.dacvars.def (oom_info).

use crate::addr::Addr;
use crate::layout::StructView;
use crate::runtimes::api::{FailedAllocation, Segment};
use crate::runtimes::clr_gc::finalizers::heap_count;
use crate::runtimes::clr_gc::{Gc, gc_heap};

/// The last oom_reason (oom_unproductive_full_gc). 0 means that no allocation failed.
const LAST_REASON: u32 = 6;

/// Reads the record of each heap. Returns the failed allocation, the largest of several.
pub(crate) fn read(gc: Gc<'_>, server: bool, segments: &[Segment]) -> Option<FailedAllocation> {
    let vars = StructView::new(gc.memory, gc.layout, "GcDacVars", gc.vars?);
    let records: Vec<Addr> = match server {
        false => vars.ptr("oom_info").ok().filter(|at| !at.is_null()).into_iter().collect(),
        true => (0..heap_count(segments)).filter_map(|heap| gc_heap::field(gc, heap, "oom_info")).collect(),
    };
    records.into_iter().filter_map(|at| record(gc, at)).max_by_key(|found| found.bytes)
}

fn record(gc: Gc<'_>, at: Addr) -> Option<FailedAllocation> {
    let view = StructView::new(gc.memory, gc.layout, "OomHistory", at);
    let reason = view.u32("reason").ok()?;
    let bytes = view.u64("alloc_size").ok()?;
    let large = view.u32("loh_p").ok()? != 0;
    ((1..=LAST_REASON).contains(&reason) && bytes > 0).then_some(FailedAllocation { bytes, large })
}

//! Warnings about managed heaps that could be read only in part.

use crate::diag::WarningCode;
use crate::limits;
use crate::process::Process;
use crate::runtimes::api::{Heap, ManagedRuntime, UnwalkedRanges};
use crate::units::exact;

/// Warns if the dump was taken during a garbage collection, when objects may be half moved.
pub fn warn_in_gc(process: &Process, runtime: &dyn ManagedRuntime, heap: &dyn Heap) {
    if heap.in_gc() {
        process.diag.excuse(WarningCode::OF_HEAP);
        process.diag.note(
            WarningCode::HeapInGc,
            format!(
                "{}: the dump was taken during a garbage collection; references may point to old or new addresses of objects",
                runtime.label()
            ),
        );
    }
}

/// Warns about parts of the heap that could not be walked.
pub fn warn_losses(process: &Process, runtime: &dyn ManagedRuntime, heap: &dyn Heap, losses: &UnwalkedRanges) {
    let name = runtime.label();
    for note in heap.notes() {
        process.diag.partial(WarningCode::HeapWalk, format!("{name}: {note}"));
    }
    if heap.has_too_many_types() {
        process.diag.partial(
            WarningCode::Limit,
            format!("more than {} types: objects of the rest are not counted", limits::MAX_METHOD_TABLES),
        );
    }
    if let Some(first) = losses.listed.first() {
        let places = if losses.count == 1 { "1 range".into() } else { format!("{} ranges", exact(losses.count)) };
        process.diag.partial(
            WarningCode::HeapWalk,
            format!(
                "{name}: {} bytes of the heap in {places} could not be walked; the first is at {}: {}",
                exact(losses.bytes),
                first.range,
                first.reason
            ),
        );
    }
}

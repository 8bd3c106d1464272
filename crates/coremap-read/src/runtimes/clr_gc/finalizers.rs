//! Finalizer queues: registered objects, by generation, and objects whose finalizer is due.
//!
//! Source: src/coreclr/gc: gcpriv.h (CFinalize: an array of objects cut into segments, the oldest generation first,
//! then critical and other objects that are due), gcinterface.dac.h (dac_finalize_queue).

use crate::addr::Addr;
use crate::layout::StructView;
use crate::limits;
use crate::memory::Fault;
use crate::runtimes::api::{FinalizeQueue, Segment};
use crate::runtimes::clr_gc::{Gc, gc_heap};
use crate::words::Generation;

/// Number of generations if the runtime does not store it (3.1, which has no POH).
const GENERATIONS: u64 = 4;

/// Generations by number.
const BY_NUMBER: [Generation; 5] =
    [Generation::Gen0, Generation::Gen1, Generation::Gen2, Generation::Loh, Generation::Poh];

/// Number of segments after those of the generations (ExtraSegCount): critical and other objects that are due.
const DUE: u64 = 2;

/// Reads all queues. Returns them with messages about what could not be read. A `server` GC has one queue per heap, and
/// `segments` show how many heaps there are.
pub(crate) fn read(gc: Gc<'_>, server: bool, segments: &[Segment]) -> (Vec<FinalizeQueue>, Vec<String>) {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    for (heap, at) in queues(gc, server, segments) {
        match queue(gc, heap, at) {
            Ok(queue) => out.push(queue),
            Err(e) => notes.push(format!("finalization queue of heap {heap}: {e}")),
        }
    }
    if out.is_empty() && notes.is_empty() {
        notes.push("finalization queue: not in the core".into());
    }
    (out, notes)
}

/// Returns each heap's number and the address of its queue.
fn queues(gc: Gc<'_>, server: bool, segments: &[Segment]) -> Vec<(u32, Addr)> {
    let Gc { memory, layout, .. } = gc;
    let Some(vars) = gc.vars else { return Vec::new() };
    let vars = StructView::new(memory, layout, "GcDacVars", vars);
    let at = |addr: Addr| memory.ptr(addr).ok().filter(|a| !a.is_null());
    if !server {
        let addr = vars.ptr("finalize_queue").ok().filter(|a| !a.is_null());
        return addr.and_then(at).map(|queue| (0, queue)).into_iter().collect();
    }
    (0..heap_count(segments)).filter_map(|i| Some((i, at(gc_heap::field(gc, i, "finalize_queue")?)?))).collect()
}

/// Number of heaps that the segments belong to.
pub(super) fn heap_count(segments: &[Segment]) -> u32 {
    segments.iter().map(|segment| segment.heap.saturating_add(1)).max().unwrap_or(0)
}

/// Reasons why a queue can't be read.
#[derive(Debug, thiserror::Error)]
enum QueueError {
    /// The queue's array, or the ends of its segments, are not in the core.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The length of a segment is not a multiple of 8 bytes, or exceeds the limit.
    #[error("implausible segment from {start} to {end}")]
    Segment { start: Addr, end: Addr },
}

fn queue(gc: Gc<'_>, heap: u32, at: Addr) -> Result<FinalizeQueue, QueueError> {
    let Gc { memory, layout, .. } = gc;
    let generations = gc
        .vars
        .map(|vars| StructView::new(memory, layout, "GcDacVars", vars))
        .filter(|vars| vars.has("total_generation_count"))
        .and_then(|vars| vars.u64("total_generation_count").ok())
        .unwrap_or(GENERATIONS)
        .min(BY_NUMBER.len() as u64);
    let segments = generations + DUE;
    let fill = |i: u64| memory.ptr(at.saturating_add(8 * i));
    // The start of the array is stored after the segments' ends.
    let mut start = fill(segments)?;
    let mut out = FinalizeQueue { heap, ..FinalizeQueue::default() };
    for segment in 0..segments {
        let end = fill(segment)?;
        let len = end.checked_since(start).filter(|len| len.is_multiple_of(8));
        let Some(len) = len.filter(|&len| len / 8 <= limits::MAX_FINALIZABLE) else {
            return Err(QueueError::Segment { start, end });
        };
        let bytes = memory.bytes(start, len as usize)?;
        for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let (addr, object) = (start.saturating_add(8 * i as u64), Addr::new(u64::from_le_bytes(*word)));
            // The oldest generation comes first.
            match generations.checked_sub(segment + 1).and_then(|g| BY_NUMBER.get(g as usize)) {
                Some(&generation) => out.registered.push((generation, addr, object)),
                None => out.ready.push((addr, object)),
            }
        }
        start = end;
    }
    Ok(out)
}

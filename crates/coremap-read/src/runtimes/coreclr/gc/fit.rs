//! Checks that the GC's structures fit a layout that no core of this version has confirmed.

use crate::addr::Addr;
use crate::layout::StructView;
use crate::limits;
use crate::memory::Memory as _;
use crate::process::Process;
use crate::runtimes::api::Segment;
use crate::runtimes::clr_gc;
use crate::runtimes::coreclr::runtime::Runtime;
use crate::words::Generation;

/// Returns the first reason why `runtime`'s layout does not fit: a list that breaks off, a segment with unordered
/// bounds, or objects without a type.
pub(in crate::runtimes::coreclr) fn misfit(process: &Process, runtime: &Runtime) -> Option<String> {
    let heap = match clr_gc::read(runtime.gc(process), runtime.gc_bounds(&process.memory)) {
        Ok(heap) => heap,
        Err(e) => return Some(e.to_string()),
    };
    if let Some(note) = heap.notes.first() {
        return Some(note.clone());
    }
    let of = |generation: Generation| heap.segments.iter().any(|s| s.generation == generation);
    // Each generation has a segment from the start. Without regions the youngest generations share one.
    let wanted: &[Generation] = if heap.regions {
        &[Generation::Gen0, Generation::Gen1, Generation::Gen2, Generation::Loh, Generation::Poh]
    } else {
        &[Generation::Ephemeral, Generation::Loh]
    };
    if let Some(empty) = wanted.iter().find(|&&generation| !of(generation)) {
        return Some(format!("its GC has no segment of {}", empty.name()));
    }
    if let Some(odd) = heap.segments.iter().find(|s| !is_ordered(process, s)) {
        return Some(format!("the heap_segment at {} is invalid", odd.address));
    }
    let full = heap.segments.iter().filter(|s| s.start < s.end).take(limits::MAX_CHECKED_SEGMENTS);
    let firsts = full.filter_map(|s| process.memory.ptr(s.start).ok()).filter(|at| !at.is_null());
    let verdicts: Vec<bool> = firsts.filter_map(|at| is_type(process, runtime, at)).collect();
    (!verdicts.is_empty() && !verdicts.contains(&true)).then(|| "no GC segment begins with an object".into())
}

/// Whether a segment's bounds are in order and its start is mapped.
fn is_ordered(process: &Process, s: &Segment) -> bool {
    s.committed.start <= s.start
        && s.start <= s.end
        && s.end <= s.committed.end
        && s.committed.end <= s.reserved_end
        && s.start.is_aligned(8)
        && process.base().at(s.start).is_some()
}

/// Whether the first word of an object leads to a plausible MethodTable. The lowest bits of the word are marks of the
/// GC. `None` if the MethodTable is not in the core.
fn is_type(process: &Process, runtime: &Runtime, word: Addr) -> Option<bool> {
    let is_mapped = |at: Addr| process.base().at(at).is_some();
    let view = StructView::new(&process.memory, &runtime.layout, "MethodTable", Addr::new(word.get() & !7));
    if !is_mapped(view.addr) {
        return Some(false);
    }
    let size = view.u32("BaseSize").ok()?;
    let leads = |field: &str| view.ptr(field).is_ok_and(|at| at.is_null() || is_mapped(at));
    Some(size > 0 && size <= limits::MAX_BASE_SIZE && leads("EEClassOrCanonMT") && leads("ParentMethodTable"))
}

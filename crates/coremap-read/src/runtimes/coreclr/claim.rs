//! Claims of memory from the runtime's structures.

use crate::diag::WarningCode;
use crate::map::{Claims, Kind};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::EventSession;
use crate::runtimes::clr_gc::sink::Sink;
use crate::runtimes::clr_gc::{self, AllocContext};
use crate::runtimes::coreclr::loader::executable_memory;
use crate::runtimes::coreclr::{AllocatorHeaps, Runtime, Segment, code, gc, loader};
use crate::runtimes::event_pipe;

/// Memory that one runtime's structures describe.
#[derive(Clone, Debug, Default)]
pub struct Heaps {
    /// GC segments and regions.
    pub segments: Vec<Segment>,
    /// Committed bytes of regions and segments without objects.
    pub free: u64,
    /// Allocation contexts of the GC's generations themselves.
    pub contexts: Vec<AllocContext>,
    /// Loader heaps of each loader allocator, then code heaps.
    pub loader: Vec<AllocatorHeaps>,
    /// Open sessions of the event log.
    pub events: Vec<EventSession>,
    /// Whether it is a server GC.
    pub server: bool,
    /// Whether the GC uses regions, not segments.
    pub regions: bool,
    /// Whether the core was taken during a collection.
    pub in_gc: bool,
}

/// Reads all heaps of `runtime` and makes their claims. Failures become warnings.
///
/// Each part is a phase of its own, so one failure does not affect the others.
pub(super) fn read_heaps(process: &Process, runtime: &Runtime) -> (Heaps, Claims) {
    let mut heaps = Heaps::default();
    let mut out = Sink::new(process, runtime.module, runtime.proven);
    let warn = |what: &str, e: &dyn std::fmt::Display| {
        process.diag.partial(WarningCode::Dotnet, format!("{}: {what}: {e}", runtime.name()));
    };
    let phase = process.enter(Phase::GcHeap);
    match clr_gc::read(runtime.gc(process), runtime.gc_bounds(&process.memory)) {
        Ok(found) => {
            for note in &found.notes {
                warn("GC heap", note);
            }
            found.claim(&mut out);
            heaps.free = found.free_bytes();
            heaps.segments = found.segments;
            heaps.contexts = found.contexts;
            heaps.server = found.server;
            heaps.regions = found.regions;
            heaps.in_gc = found.in_gc;
        }
        Err(e) => match &runtime.gc_misfit {
            Some(odd) => warn("GC heap", odd),
            None => warn("GC heap", &e),
        },
    }
    drop(phase);
    let (segments, broken) = gc::read_handle_table(process, runtime);
    let claimed = runtime.layout.constant("HandleTable", "claimed").is_ok();
    // In 3.1 the table is read only for its handles: no official tool reports its ranges to compare with.
    for &range in segments.iter().filter(|_| claimed) {
        out.exact(range, Kind::HandleTable, "handle table segment", "g_HandleTableMap, SegmentList");
    }
    // The data-access variables of 3.1 do not describe the inside of the handle table.
    if let Some(e) = broken.as_ref().filter(|_| claimed && runtime.gc_misfit.is_none()) {
        warn("handle table", e);
    }
    let phase = process.enter(Phase::LoaderHeaps);
    match loader::read(process, runtime) {
        Ok((found, notes)) => {
            for note in &notes {
                warn("loader heaps", note);
            }
            heaps.loader = found;
        }
        Err(e) => warn("loader heaps", &e),
    }
    heaps.events = event_pipe::find(process, runtime.module);
    event_pipe::claim(&heaps.events, &mut out);
    drop(phase);
    let phase = process.enter(Phase::CodeHeaps);
    match code::heaps::read(process, runtime) {
        Ok((found, notes)) => {
            for note in &notes {
                warn("code heaps", note);
            }
            heaps.loader.push(found);
        }
        Err(e) => warn("code heaps", &e),
    }
    drop(phase);
    for allocator in &heaps.loader {
        for block in &allocator.blocks {
            let detail = format!("{} of {}", block.kind.name(), allocator.name);
            out.exact(block.range, block.kind, &detail, &block.evidence);
        }
    }
    if let Some(found) = executable_memory(process, runtime) {
        if found.missing > 0 {
            let (missing, given) = (found.missing, found.given);
            let why = format!("{missing} of {given} allocated bytes are in no block at {}", found.at);
            warn("executable memory", &why);
        }
        let phase = process.enter(Phase::CodeHeaps);
        for label in found.labels(process, runtime) {
            out.add(label.range, label.kind, label.confidence, &label.detail, &label.evidence);
        }
        drop(phase);
    }
    (heaps, out.into_claims())
}

//! What the runtime's structures say of memory, as claims on it.

use crate::diag::WarningCode;
use crate::map::{Claims, Kind};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::clr_gc::sink::Sink;
use crate::runtimes::clr_gc::{self, AllocContext};
use crate::runtimes::coreclr::loader::executable_memory;
use crate::runtimes::coreclr::{AllocatorHeaps, Runtime, Segment, code, gc, loader};

/// What one runtime's structures say.
#[derive(Clone, Debug, Default)]
pub struct Heaps {
    /// GC segments and regions.
    pub segments: Vec<Segment>,
    /// What the GC's generations themselves allocate from.
    pub contexts: Vec<AllocContext>,
    /// Loader heaps of each loader allocator, and code heaps.
    pub loader: Vec<AllocatorHeaps>,
    /// Whether the GC is of the server kind.
    pub server: bool,
    /// Whether the GC works by regions and not by segments.
    pub regions: bool,
    /// Whether the heap was in the middle of a collection.
    pub in_gc: bool,
}

/// Read all heaps of `runtime` with what they claim, and tell what failed.
///
/// Each part is a phase of its own: one that fails is a diagnostic.
pub(super) fn read_heaps(process: &Process, runtime: &Runtime) -> (Heaps, Claims) {
    let mut heaps = Heaps::default();
    let mut out = Sink::new(process, runtime.module, runtime.proven);
    let tell = |what: &str, e: &dyn std::fmt::Display| {
        process.diag.partial(WarningCode::Dotnet, format!("{}: {what}: {e}", runtime.name()));
    };
    let phase = process.enter(Phase::GcHeap);
    match clr_gc::read(runtime.gc(process), runtime.gc_bounds(&process.memory)) {
        Ok(found) => {
            for note in &found.notes {
                tell("GC heap", note);
            }
            found.claim(&mut out);
            heaps.segments = found.segments;
            heaps.contexts = found.contexts;
            heaps.server = found.server;
            heaps.regions = found.regions;
            heaps.in_gc = found.in_gc;
        }
        Err(e) => tell("GC heap", &e),
    }
    drop(phase);
    let (segments, broken) = gc::read_handle_table(process, runtime);
    let claimed = runtime.layout.constant("HandleTable", "claimed").is_ok();
    // 3.1's table is read for its handles only: no official answer tells its ranges.
    for &range in segments.iter().filter(|_| claimed) {
        out.exact(range, Kind::HandleTable, "handle table segment", "g_HandleTableMap, SegmentList");
    }
    // 3.1's data-access variables do not describe the handle table's insides.
    if let Some(e) = broken.as_ref().filter(|_| claimed) {
        tell("handle table", e);
    }
    let phase = process.enter(Phase::LoaderHeaps);
    match loader::read(process, runtime) {
        Ok((found, notes)) => {
            for note in &notes {
                tell("loader heaps", note);
            }
            heaps.loader = found;
        }
        Err(e) => tell("loader heaps", &e),
    }
    drop(phase);
    let phase = process.enter(Phase::CodeHeaps);
    match code::heaps::read(process, runtime) {
        Ok((found, notes)) => {
            for note in &notes {
                tell("code heaps", note);
            }
            heaps.loader.push(found);
        }
        Err(e) => tell("code heaps", &e),
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
            tell("executable memory", &why);
        }
        let phase = process.enter(Phase::CodeHeaps);
        for label in found.labels(process, runtime) {
            out.add(label.range, label.kind, label.confidence, &label.detail, &label.evidence);
        }
        drop(phase);
    }
    (heaps, out.into_claims())
}

//! Claims of memory from the runtime's structures.

use crate::addr::AddrRange;
use crate::map::{Claims, Kind};
use crate::phase::Phase;
use crate::runtimes::api::EventSession;
use crate::runtimes::clr_gc::sink::Sink;
use crate::runtimes::clr_gc::{self, GcHeap, SegmentList};
use crate::runtimes::event_pipe;
use crate::runtimes::nativeaot::bookkeeping::{self, Bookkeeping};
use crate::runtimes::nativeaot::free_regions;
use crate::runtimes::nativeaot::runtime::Runtime;

/// Memory that the runtime's structures describe.
pub(super) struct Heaps {
    pub(super) gc: GcHeap,
    /// Segments of the handle table.
    pub(super) handles: SegmentList,
    bookkeeping: Option<Bookkeeping>,
    /// Open sessions of the event log.
    pub(super) events: Vec<EventSession>,
    /// Messages about what could not be read.
    pub(super) notes: Vec<String>,
}

impl Heaps {
    pub(super) fn read(runtime: &Runtime<'_>) -> Heaps {
        let mut notes = Vec::new();
        let (mut gc, bookkeeping) = {
            let _phase = runtime.process.enter(Phase::GcHeap);
            let gc = clr_gc::read(runtime.gc(), None).unwrap_or_else(|e| {
                notes.push(format!("GC heap: {e}"));
                GcHeap::default()
            });
            let found = bookkeeping::find(runtime, &gc.segments);
            (gc, found)
        };
        if gc.regions && gc.free.is_empty() {
            let _phase = runtime.process.enter(Phase::GcHeap);
            gc.free = bookkeeping.as_ref().map(|found| free_regions::find(runtime, found)).unwrap_or_default();
        }
        notes.extend(gc.notes.iter().map(|note| format!("GC heap: {note}")));
        let handles = clr_gc::segments(runtime.process, runtime.gc());
        notes.extend(handles.1.as_ref().map(|e| format!("handle table: {e}")));
        let events = {
            let _phase = runtime.process.enter(Phase::LoaderHeaps);
            event_pipe::find(runtime.process, runtime.module)
        };
        Heaps { gc, handles, bookkeeping, events, notes }
    }

    /// Claims the GC's memory and the handle table.
    pub(super) fn claim(&self, runtime: &Runtime<'_>, claims: &mut Claims) {
        let mut out = Sink::new(runtime.process, runtime.module, runtime.release.is_some());
        self.gc.claim(&mut out);
        for &range in &self.handles.0 {
            out.exact(range, Kind::HandleTable, "handle table segment", "g_HandleTableMap, SegmentList");
        }
        event_pipe::claim(&self.events, &mut out);
        if let Some(Bookkeeping { bounds, range }) = &self.bookkeeping {
            let evidence = format!("size in the card_table_info at {}", range.start);
            out.exact(*range, Kind::GCBookkeeping, "card table and other bookkeeping", &evidence);
            // Segments are scattered, with unrelated memory between them.
            if self.gc.regions {
                tracing::debug!(module = runtime.path, %bounds, "reserved by the GC");
                let evidence = "lowest and highest address in card_table_info";
                let others: Vec<AddrRange> = self.handles.0.iter().copied().chain([*range]).collect();
                self.gc.claim_whole(*bounds, &others, evidence, &mut out);
            }
        }
        out.into_claims().iter().for_each(|claim| claims.add(claim.clone()));
    }
}

//! Claims of memory from the runtime's structures.

use crate::addr::AddrRange;
use crate::map::{Claims, Confidence, Kind};
use crate::phase::Phase;
use crate::runtimes::clr_gc::sink::Sink;
use crate::runtimes::clr_gc::{self, GcHeap, SegmentList};
use crate::runtimes::nativeaot::bookkeeping::{self, Bookkeeping};
use crate::runtimes::nativeaot::runtime::Runtime;

/// Memory that the runtime's structures describe.
pub(super) struct Heaps {
    pub(super) gc: GcHeap,
    /// Segments of the handle table.
    pub(super) handles: SegmentList,
    bookkeeping: Option<Bookkeeping>,
    /// Messages about what could not be read.
    pub(super) notes: Vec<String>,
}

impl Heaps {
    pub(super) fn read(runtime: &Runtime<'_>) -> Heaps {
        let mut notes = Vec::new();
        let (gc, bookkeeping) = {
            let _phase = runtime.process.enter(Phase::GcHeap);
            let gc = clr_gc::read(runtime.gc(), None).unwrap_or_else(|e| {
                notes.push(format!("GC heap: {e}"));
                GcHeap::default()
            });
            let found = bookkeeping::find(runtime, &gc.segments);
            (gc, found)
        };
        notes.extend(gc.notes.iter().map(|note| format!("GC heap: {note}")));
        let handles = clr_gc::segments(runtime.process, runtime.gc());
        notes.extend(handles.1.as_ref().map(|e| format!("handle table: {e}")));
        Heaps { gc, handles, bookkeeping, notes }
    }

    /// Claims the GC's memory and the handle table.
    pub(super) fn claim(&self, runtime: &Runtime<'_>, claims: &mut Claims) {
        let mut out = Sink::new(runtime.process, runtime.module, runtime.release.is_some());
        self.gc.claim(&mut out);
        for &range in &self.handles.0 {
            out.exact(range, Kind::HandleTable, "handle table segment", "g_HandleTableMap, SegmentList");
        }
        if let Some(Bookkeeping { bounds, range }) = &self.bookkeeping {
            let evidence = format!("size in the card_table_info at {}", range.start);
            out.exact(*range, Kind::GCBookkeeping, "card table and other bookkeeping", &evidence);
            // Segments are scattered, with unrelated memory between them.
            if self.gc.regions {
                self.reserve(runtime, *bounds, &mut out);
            }
        }
        out.into_claims().iter().for_each(|claim| claims.add(claim.clone()));
    }

    fn reserve(&self, runtime: &Runtime<'_>, bounds: AddrRange, out: &mut Sink<'_>) {
        tracing::debug!(module = runtime.path, %bounds, "reserved by the GC");
        let evidence = "lowest and highest address in card_table_info";
        out.add(bounds, Kind::GCHeapReserve, Confidence::Derived, "reserved by the GC", evidence);
    }
}

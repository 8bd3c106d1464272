use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::phase::Phase;
use crate::report::ObjectReport;
use crate::session::Session;

/// Shows the object at `addr`, or the object that contains `addr`.
pub fn object(session: &Session<'_>, addr: Addr) -> ObjectReport {
    let _phase = session.process.enter(Phase::References);
    for runtime in session.runtimes() {
        if let (Some(heap), Some(report)) = (runtime.heap(), runtime.object(addr)) {
            warn_in_gc(session.process, runtime, heap);
            return report;
        }
    }
    ObjectReport { object: addr, ..ObjectReport::default() }
}

use regex::Regex;

use crate::addr::AddrRange;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::listing::list;
use crate::commands::objects::report::ObjectsReport;
use crate::phase::Phase;
use crate::session::Session;
use crate::sums::SaturatingAdd;

/// Lists the objects of the types whose name matches, in a range of addresses. `None`: all.
pub fn objects(session: &Session<'_>, name: Option<&Regex>, range: Option<AddrRange>) -> ObjectsReport {
    session.process.target().expect_scan();
    let mut report = ObjectsReport::default();
    for runtime in session.runtimes() {
        let Some(heap) = runtime.heap() else { continue };
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, heap);
        let (objects, more) = list(session.process, runtime, heap, range, &|kind| {
            let is_free = heap.type_info(kind).is_some_and(|info| info.free);
            name.map_or(!is_free, |name| name.is_match(&heap.type_name(kind)))
        });
        report.more.add_saturating(more);
        report.size = objects.iter().map(|o| o.size).fold(report.size, u64::saturating_add);
        report.objects.extend(objects);
        heap.warn_missing();
    }
    report
}

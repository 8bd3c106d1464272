use std::collections::BTreeMap;

use crate::analysis::heap_notes::warn_in_gc;
use crate::commands::dotnet::finalizers::report::{FinalizerRow, FinalizerTypeRow, FinalizersReport};
use crate::commands::dotnet::{clr_gcs, unread};
use crate::phase::Phase;
use crate::report::FinalizerState;
use crate::runtimes::api::{FinalizeQueue, Heap, ManagedRuntime, ObjectNames};
use crate::session::Session;

/// Lists the objects with finalizers.
pub fn finalizers(session: &Session<'_>) -> FinalizersReport {
    let mut report = FinalizersReport::default();
    let mut read = Vec::new();
    for (id, runtime, gc) in clr_gcs(session) {
        let Some(heap) = runtime.heap() else { continue };
        let queues = gc.finalizers();
        if !queues.is_empty() {
            read.push(id);
        }
        list(session, runtime, heap, &queues, &mut report.objects);
    }
    report.unread = unread(session, &read);
    let mut by_type: BTreeMap<(&str, FinalizerState), u64> = BTreeMap::new();
    for row in &report.objects {
        *by_type.entry((row.name.as_deref().unwrap_or("?"), row.state)).or_default() += 1;
    }
    report.types = by_type
        .into_iter()
        .map(|((name, state), count)| FinalizerTypeRow { name: name.to_owned().into(), state, count })
        .collect();
    report.types.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    report.registered = report.objects.iter().filter(|o| o.generation.is_some()).count() as u64;
    report.ready = report.objects.len() as u64 - report.registered;
    report
}

/// Adds the objects in the queues of one runtime.
fn list(
    session: &Session<'_>,
    runtime: &dyn ManagedRuntime,
    heap: &dyn Heap,
    queues: &[FinalizeQueue],
    out: &mut Vec<FinalizerRow>,
) {
    let _phase = session.process.enter(Phase::References);
    warn_in_gc(session.process, runtime, heap);
    let mut names = ObjectNames::new(heap);
    for queue in queues {
        let registered = queue.registered.iter().map(|&(generation, _, object)| (Some(generation), object));
        let ready = queue.ready.iter().map(|&(_, object)| (None, object));
        for (generation, object) in registered.chain(ready) {
            let (name, size) = names.object(object).unzip();
            out.push(FinalizerRow {
                object,
                name,
                size,
                state: if generation.is_some() { FinalizerState::Registered } else { FinalizerState::Ready },
                generation,
                heap: queue.heap,
            });
        }
    }
}

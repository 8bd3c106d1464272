use crate::addr::Addr;
use crate::analysis::heap_notes::tell_in_gc;
use crate::commands::dotnet::handles::report::{HandleKindRow, HandleRow, HandlesReport};
use crate::managed::{ManagedRuntime as _, ObjectNames};
use crate::session::Session;

/// List the GC handles of all runtimes.
pub fn handles(session: &Session<'_>) -> HandlesReport {
    let process = session.process;
    let mut report = HandlesReport::default();
    for runtime in session.coreclr() {
        let (handles, heap) = (runtime.handles(), runtime.objects());
        let mut names = ObjectNames::new(heap);
        let mut name = |object: Addr| names.object(object).map(|(name, _)| name);
        tell_in_gc(process, runtime, heap);
        let unknown = handles.iter().filter(|h| name(h.object).is_none()).count();
        if unknown > 0 {
            process.diag.partial(
                "handles",
                format!(
                    "{}: the objects of {unknown} of {} handles are not in the core",
                    runtime.label(),
                    handles.len()
                ),
            );
        }
        report.handles.extend(handles.iter().map(|h| HandleRow {
            address: h.address,
            kind: h.kind,
            object: h.object,
            name: name(h.object),
            secondary: h.secondary,
            secondary_type: h.secondary.and_then(&mut name),
        }));
    }
    for handle in &report.handles {
        match report.kinds.iter_mut().find(|k| k.kind == handle.kind) {
            Some(row) => row.count += 1,
            None => report.kinds.push(HandleKindRow { kind: handle.kind, count: 1 }),
        }
    }
    report.kinds.sort_by_key(|k| (std::cmp::Reverse(k.count), k.kind.name()));
    report
}

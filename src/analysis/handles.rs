use crate::addr::Addr;
use crate::analysis::managed::{handles_of, tell_in_gc};
use crate::dotnet::TypeSystem;
use crate::dotnet::graph::Graph;
use crate::dotnet::heap::Heap;
use crate::introspect::Findings;
use crate::process::Process;
use crate::report::{HandleKindRow, HandleRow, HandlesReport, Name};

/// List the GC handles of all runtimes.
pub fn handles(process: &Process, found: &Findings) -> HandlesReport {
    let mut report = HandlesReport::default();
    for (runtime, heaps) in &found.runtimes {
        let handles = handles_of(process, runtime);
        let types = TypeSystem::new(process, runtime);
        let heap = Heap::open(&types, heaps);
        let graph = Graph::new(&types, &heap, &[]);
        let mut reader = graph.reader();
        let mut names = std::collections::HashMap::new();
        let mut name = |object: Addr| {
            let info = reader.node(object.get())?.layout.info;
            Some(names.entry(info.address).or_insert_with(|| Name::from(heap.type_name(&info))).clone())
        };
        tell_in_gc(process, runtime, &heap);
        let unknown = handles.iter().filter(|h| name(h.object).is_none()).count();
        if unknown > 0 {
            process.diag.partial(
                "handles",
                format!(
                    "{}: the objects of {unknown} of {} handles are not in the core",
                    runtime.name(),
                    handles.len()
                ),
            );
        }
        report.handles.extend(handles.iter().map(|h| HandleRow {
            address: h.address,
            kind: h.kind.name(),
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
    report.kinds.sort_by_key(|k| (std::cmp::Reverse(k.count), k.kind));
    report
}

use crate::addr::Addr;
use crate::analysis::managed::{Names, handles_of, tell, tell_in_gc, with_heap};
use crate::dotnet::graph::{Graph, Link, Path, RootKind, Search, roots};
use crate::dotnet::heap::Heap;
use crate::dotnet::{Heaps, Runtime, TypeSystem};
use crate::introspect::Findings;
use crate::limits;
use crate::process::Process;
use crate::report::{ChainRow, GcRootReport, RootPathRow};

/// Types of a path in whose modules the static field is looked for that it begins with.
const STATIC_TYPES: usize = 8;

/// Tell why the object at `addr` is alive: a shortest path from each root that
/// leads to it, with `all` from all of them.
pub fn gcroot(process: &Process, found: &Findings, addr: Addr, all: bool) -> GcRootReport {
    process.core.expect_scan();
    let mut report = GcRootReport { object: addr, ..GcRootReport::default() };
    for (runtime, heaps) in with_heap(&found.runtimes) {
        one(process, runtime, heaps, addr, all, &mut report);
        if report.name.is_some() {
            break;
        }
    }
    report
}

fn one(process: &Process, runtime: &Runtime, heaps: &Heaps, addr: Addr, all: bool, report: &mut GcRootReport) {
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    let handles = handles_of(process, runtime);
    let graph = Graph::new(&types, &heap, &handles);
    let mut names = Names::new(&types, &graph);
    let Some(target) = names.object(addr).map(|_| addr).or_else(|| names.containing(addr)) else { return };
    let Some((name, size)) = names.object(target) else { return };
    tell_in_gc(process, runtime, &heap);
    (report.object, report.name, report.size) = (target, Some(name), Some(size));
    let (roots, notes) = roots(&graph, heaps, &handles);
    tell(process, runtime, "roots", &notes);
    let most = if all { limits::MAX_ALL_PATHS } else { limits::MAX_PATHS };
    let found = Search::new(&graph, target).run(&roots, most);
    report.roots = roots.len() as u64;
    report.visited = found.objects;
    report.more = found.more;
    report.paths = found.paths.iter().map(|path| row(&mut names, path)).collect();
    report.paths.sort_by_key(|p| p.chain.len());
}

fn row(names: &mut Names<'_, '_, '_>, path: &Path) -> RootPathRow {
    let mut chain: Vec<ChainRow> = path
        .steps
        .iter()
        .map(|&(object, link)| {
            let name = names.object(object).map(|(name, _)| name);
            ChainRow { object, name, field: link.and_then(|link| names.link(object, link)) }
        })
        .collect();
    // Statics stand in arrays that handles keep; those of threads from .NET 9 on in
    // arrays within the thread's own.
    let arrays = match path.root.kind {
        RootKind::Handle(_) => 1,
        RootKind::ThreadStatics => 2,
        _ => 0,
    };
    for (i, (row, &(object, link))) in chain.iter_mut().zip(&path.steps).enumerate().take(arrays) {
        let Some(Link::Field(offset)) = link else { continue };
        let held = path.steps.iter().skip(i + 1).map(|s| s.0).take(STATIC_TYPES);
        if let Some(name) = names.static_at(object.saturating_add(offset), held) {
            let index = row.field.as_deref().unwrap_or_default();
            row.field = Some(format!("{index} ({name})").into());
        }
    }
    RootPathRow {
        root_kind: path.root.kind.name(),
        root_address: path.root.address,
        thread: path.root.thread,
        register: path.root.register,
        chain,
    }
}

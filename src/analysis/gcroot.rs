use crate::addr::Addr;
use crate::analysis::managed::{ObjectNames, handles_of, tell, tell_in_gc, with_heap};
use crate::analysis::roots::{root_row, stack_roots};
use crate::dotnet::graph::{Graph, Link, Path, RootKind, Roots, Search, roots};
use crate::dotnet::heap::Heap;
use crate::dotnet::{Heaps, Methods, Runtime, TypeSystem};
use crate::introspect::Findings;
use crate::limits;
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{ChainRow, GcRootReport, RootPathRow};
use crate::stackwalk::stack_refs;

/// Types of a path in whose modules the static field is looked for that it begins with.
const STATIC_TYPES: usize = 8;

/// Tell why the object at `addr` is alive: a shortest path from each root that
/// leads to it, with `all` from all of them.
pub fn gcroot(process: &Process, found: &Findings, addr: Addr, all: bool) -> GcRootReport {
    gcroots(process, found, &[addr], all).pop().unwrap_or_default()
}

/// The same of several objects: heap, stacks and roots are read once for all of them.
pub(super) fn gcroots(process: &Process, found: &Findings, addrs: &[Addr], all: bool) -> Vec<GcRootReport> {
    process.target().expect_scan();
    let of = |&object: &Addr| GcRootReport { object, ..GcRootReport::default() };
    let mut reports: Vec<GcRootReport> = addrs.iter().map(of).collect();
    // A stack may go through the code of several runtimes.
    let runtimes: Vec<Methods<'_>> = found.runtimes.iter().map(|(r, _)| Methods::new(process, r)).collect();
    for (runtime, heaps) in with_heap(&found.runtimes) {
        let mut open: Vec<&mut GcRootReport> = reports.iter_mut().filter(|r| r.name.is_none()).collect();
        if open.is_empty() {
            break;
        }
        of_runtime(process, found, &runtimes, (runtime, heaps), &mut open, all);
    }
    reports
}

/// Fill in the reports of objects that are on this runtime's heap.
fn of_runtime<'p>(
    process: &'p Process,
    found: &Findings,
    runtimes: &[Methods<'p>],
    (runtime, heaps): (&Runtime, &Heaps),
    reports: &mut Vec<&mut GcRootReport>,
    all: bool,
) {
    let Some(methods) = runtimes.iter().find(|m| std::ptr::eq(m.types.runtime, runtime)) else { return };
    let _phase = process.enter(Phase::References);
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    let handles = handles_of(process, runtime);
    let graph = Graph::new(&types, &heap, &handles);
    let mut names = ObjectNames::new(&types, &graph);
    reports.retain_mut(|report| {
        let target = names.object(report.object).map(|_| report.object).or_else(|| names.containing(report.object));
        let Some((target, (name, size))) = target.and_then(|t| Some((t, names.object(t)?))) else { return false };
        (report.object, report.name, report.size) = (target, Some(name), Some(size));
        true
    });
    if reports.is_empty() {
        return;
    }
    tell_in_gc(process, runtime, &heap);
    let stacks = stack_refs(process, &found.stacks, runtimes, runtime);
    let Roots { all: roots, notes, stray } = roots(&graph, heaps, &handles, &stacks);
    tell(process, runtime, "roots", &notes);
    let most = if all { limits::MAX_ALL_PATHS } else { limits::MAX_PATHS };
    for report in reports {
        report.stacks = stack_roots(&stacks, &roots, stray);
        let found = Search::new(&graph, report.object).run(&roots, most);
        report.roots = roots.len() as u64;
        report.visited = found.objects;
        report.more = found.more;
        report.paths = found.paths.iter().map(|path| row(&mut names, methods, path)).collect();
        report.paths.sort_by_key(|p| p.chain.len());
    }
}

fn row(names: &mut ObjectNames<'_, '_, '_>, methods: &Methods<'_>, path: &Path) -> RootPathRow {
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
    root_row(methods, &path.root, chain)
}

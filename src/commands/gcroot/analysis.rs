use crate::addr::Addr;
use crate::analysis::across::prepend;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::roots::{path_row, room, stack_roots};
use crate::commands::gcroot::report::GcRootReport;
use crate::diag::WarningCode;
use crate::limits;
use crate::phase::Phase;
use crate::runtimes::api::{ManagedRuntime, OTHER_RUNTIME, ObjectNames, RootKind, RuntimeId};
use crate::runtimes::graph::{Graph, PathSearch};
use crate::session::Session;

/// Maximum number of paths that are followed into another runtime's heap. Each needs a search there.
const MAX_ACROSS: usize = 8;

/// Explains why the object at `addr` is alive: a shortest path from each root
/// that reaches it. With `all`, from all of them.
pub fn gcroot(session: &Session<'_>, addr: Addr, all: bool) -> GcRootReport {
    gcroots(session, &[addr], all).pop().unwrap_or_default()
}

/// Explains several objects. Heap, stacks and roots are read once for all of
/// them.
pub(in crate::commands) fn gcroots(session: &Session<'_>, addrs: &[Addr], all: bool) -> Vec<GcRootReport> {
    session.process.target().expect_scan();
    let of = |&object: &Addr| GcRootReport { object, ..GcRootReport::default() };
    let mut reports: Vec<GcRootReport> = addrs.iter().map(of).collect();
    for (id, runtime) in session.runtimes_by_id() {
        let mut open: Vec<&mut GcRootReport> = reports.iter_mut().filter(|r| r.name.is_none()).collect();
        if open.is_empty() {
            break;
        }
        of_runtime(session, (id, runtime), &mut open, all);
    }
    reports
}

/// Fills in the reports of the objects on this runtime's heap.
fn of_runtime(
    session: &Session<'_>,
    (id, runtime): (RuntimeId, &dyn ManagedRuntime),
    reports: &mut Vec<&mut GcRootReport>,
    all: bool,
) {
    let Some(heap) = runtime.heap() else { return };
    let _phase = session.process.enter(Phase::References);
    let mut names = ObjectNames::new(heap);
    reports.retain_mut(|report| {
        let target = names.object(report.object).map(|_| report.object).or_else(|| names.containing(report.object));
        let Some((target, (name, size))) = target.and_then(|t| Some((t, names.object(t)?))) else { return false };
        (report.object, report.name, report.size) = (target, Some(name), Some(size));
        true
    });
    if reports.is_empty() {
        return;
    }
    warn_in_gc(session.process, runtime, heap);
    let mut roots = session.roots(id);
    // A word that may be a reference is often left over from an earlier call.
    roots.all.sort_by_key(|root| root.kind == RootKind::StackWord);
    let most = if all { limits::MAX_ALL_PATHS } else { limits::MAX_PATHS };
    for report in reports {
        report.stacks = stack_roots(&roots);
        report.not_read.clone_from(&roots.missing);
        let search = PathSearch::new(Graph::new(heap), report.object, &room(session));
        let found = if all { search.run_for_each_root(&roots.all, most) } else { search.run(&roots.all, most) };
        let found = match found {
            Ok(found) => found,
            Err(e) => {
                session.process.diag.partial(WarningCode::Limit, format!("{}: {e}", runtime.label()));
                continue;
            }
        };
        report.roots = roots.all.len() as u64;
        report.visited = found.objects;
        report.more = found.more;
        report.paths = found.paths.iter().map(|path| path_row(&mut names, runtime, path)).collect();
        let across = report.paths.iter_mut().filter(|path| path.root_kind == OTHER_RUNTIME.name());
        across.take(MAX_ACROSS).for_each(|path| prepend(session, path));
        report.paths.sort_by_key(|p| (p.precise == Some(false), p.chain.len()));
    }
    heap.warn_missing();
}

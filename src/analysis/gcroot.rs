use std::collections::{BTreeMap, BTreeSet};

use crate::addr::Addr;
use crate::analysis::managed::{Names, handles_of, tell, tell_in_gc, with_heap};
use crate::bytes::printable;
use crate::dotnet::graph::{Graph, Link, Path, RefPlace, Root, RootKind, Roots, Search, StackRefs, roots};
use crate::dotnet::heap::Heap;
use crate::dotnet::{CodeAt, Heaps, Methods, Runtime, TypeSystem};
use crate::introspect::Findings;
use crate::limits;
use crate::process::Process;
use crate::report::{ChainRow, GcRootReport, RootFrameRow, RootPathRow, StackRootsRow, StretchRow};
use crate::stackwalk::stack_refs;

/// Types of a path in whose modules the static field is looked for that it begins with.
const STATIC_TYPES: usize = 8;

/// Tell why the object at `addr` is alive: a shortest path from each root that
/// leads to it, with `all` from all of them.
pub fn gcroot(process: &Process, found: &Findings, addr: Addr, all: bool) -> GcRootReport {
    process.core.expect_scan();
    let mut report = GcRootReport { object: addr, ..GcRootReport::default() };
    // A stack may go through the code of several runtimes.
    let runtimes: Vec<Methods<'_>> = found.runtimes.iter().map(|(r, _)| Methods::new(process, r)).collect();
    for (runtime, heaps) in with_heap(&found.runtimes) {
        one(process, found, &runtimes, (runtime, heaps), (addr, all), &mut report);
        if report.name.is_some() {
            break;
        }
    }
    report
}

fn one<'p>(
    process: &'p Process,
    found: &Findings,
    runtimes: &[Methods<'p>],
    (runtime, heaps): (&Runtime, &Heaps),
    (addr, all): (Addr, bool),
    report: &mut GcRootReport,
) {
    let Some(methods) = runtimes.iter().find(|m| std::ptr::eq(m.types.runtime, runtime)) else { return };
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    let handles = handles_of(process, runtime);
    let graph = Graph::new(&types, &heap, &handles);
    let mut names = Names::new(&types, &graph);
    let Some(target) = names.object(addr).map(|_| addr).or_else(|| names.containing(addr)) else { return };
    let Some((name, size)) = names.object(target) else { return };
    tell_in_gc(process, runtime, &heap);
    (report.object, report.name, report.size) = (target, Some(name), Some(size));
    let stacks = stack_refs(process, &found.stacks, runtimes, runtime);
    let Roots { all: roots, notes, stray } = roots(&graph, heaps, &handles, &stacks);
    tell(process, runtime, "roots", &notes);
    report.stacks = summary(&stacks, &roots, stray);
    let most = if all { limits::MAX_ALL_PATHS } else { limits::MAX_PATHS };
    let found = Search::new(&graph, target).run(&roots, most);
    report.roots = roots.len() as u64;
    report.visited = found.objects;
    report.more = found.more;
    report.paths = found.paths.iter().map(|path| row(&mut names, methods, path)).collect();
    report.paths.sort_by_key(|p| p.chain.len());
}

/// How the stacks were read.
fn summary(stacks: &[StackRefs], roots: &[Root], stray: u64) -> StackRootsRow {
    let of = |kind| roots.iter().filter(|r| r.kind == kind).count() as u64;
    let mut reasons: BTreeMap<&'static str, BTreeSet<u32>> = BTreeMap::new();
    for stack in stacks {
        for stretch in &stack.stretches {
            reasons.entry(stretch.why).or_default().insert(stack.thread);
        }
    }
    StackRootsRow {
        threads: stacks.len() as u64,
        frames_precise: stacks.iter().map(|s| s.frames.0).sum(),
        frames_conservative: stacks.iter().map(|s| s.frames.1).sum(),
        roots_precise: of(RootKind::Stack),
        roots_conservative: of(RootKind::StackWord),
        stray,
        conservative: reasons.iter().map(|(why, threads)| StretchRow { why, threads: threads.len() as u64 }).collect(),
    }
}

/// The frame that holds a root, with the name of its method.
fn frame(methods: &Methods<'_>, root: &Root) -> Option<RootFrameRow> {
    let frame = root.frame?;
    // A call that never returns may be the last instruction.
    let method = match methods.at(if frame.exact { frame.ip } else { frame.ip.saturating_sub(1) })? {
        CodeAt::Method(method) => Some(printable(&method.name).into_owned()),
        _ => None,
    };
    Some(RootFrameRow { sp: frame.sp, ip: frame.ip, method })
}

fn row(names: &mut Names<'_, '_, '_>, methods: &Methods<'_>, path: &Path) -> RootPathRow {
    let mut chain: Vec<ChainRow> = path
        .steps
        .iter()
        .map(|&(object, link)| {
            let name = names.object(object).map(|(name, _)| name);
            ChainRow { object, name, field: link.and_then(|link| names.link(object, link)) }
        })
        .collect();
    // Statics stand in arrays that handles keep.
    if let (RootKind::Handle(_), Some(&(object, Some(Link::Field(offset)))), Some(first)) =
        (path.root.kind, path.steps.first(), chain.first_mut())
        && let Some(name) =
            names.static_at(object.saturating_add(offset), path.steps.iter().skip(1).map(|s| s.0).take(STATIC_TYPES))
    {
        let index = first.field.as_deref().unwrap_or_default();
        first.field = Some(format!("{index} (static {name})").into());
    }
    RootPathRow {
        root_kind: path.root.kind.name(),
        root_address: path.root.address,
        thread: path.root.thread,
        register: path.root.register,
        precise: match path.root.kind {
            RootKind::Stack => Some(true),
            RootKind::StackWord => Some(false),
            _ => None,
        },
        slot: path.root.place.map(|place| match place {
            RefPlace::Slot(slot) => slot.to_string(),
            RefPlace::Listed(_, list) => list.to_owned(),
        }),
        frame: frame(methods, &path.root),
        interior: path.root.interior,
        pinned: path.root.pinned,
        chain,
    }
}

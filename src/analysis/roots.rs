//! Roots as rows of reports, and what they keep.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::managed::{ObjectNames, handles_of, tell, tell_in_gc, tell_walk, with_heap};
use crate::bytes::printable;
use crate::dotnet::graph::{Graph, RefPlace, Retained, Root, RootKind, Roots, StackRefs, roots};
use crate::dotnet::heap::Heap;
use crate::dotnet::{CodeAt, Heaps, Methods, Runtime, TypeSystem};
use crate::introspect::Findings;
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{ChainRow, RootFrameRow, RootPathRow, StackRootsRow, StretchRow};
use crate::stackwalk::stack_refs;
use crate::units::exact;

/// The roots of one runtime's objects.
pub(super) struct Rooted<'a, 'm> {
    /// All of them.
    pub(super) roots: &'a [Root],
    /// The runtime's methods, for the names of frames.
    pub(super) methods: &'a Methods<'m>,
    /// How the stacks were read.
    pub(super) stacks: StackRootsRow,
}

/// Find what all objects of each runtime keep, and use it; nothing where there are too
/// many. What makes it less than the whole is told.
pub(super) fn with_retained(
    process: &Process,
    found: &Findings,
    mut with: impl for<'g, 'h, 'p> FnMut(&Retained<'g, 'h, 'p>, &mut ObjectNames<'g, 'h, 'p>, &Rooted<'_, '_>),
) {
    process.target().expect_scan();
    // A stack may go through the code of several runtimes.
    let runtimes: Vec<Methods<'_>> = found.runtimes.iter().map(|(r, _)| Methods::new(process, r)).collect();
    for (runtime, heaps) in with_heap(&found.runtimes) {
        let Some(methods) = runtimes.iter().find(|m| std::ptr::eq(m.types.runtime, runtime)) else { continue };
        let stacks = stack_refs(process, &found.stacks, &runtimes, runtime);
        of_runtime(process, (runtime, heaps), methods, &stacks, &mut with);
    }
}

fn of_runtime(
    process: &Process,
    (runtime, heaps): (&Runtime, &Heaps),
    methods: &Methods<'_>,
    stacks: &[StackRefs],
    with: &mut impl for<'g, 'h, 'p> FnMut(&Retained<'g, 'h, 'p>, &mut ObjectNames<'g, 'h, 'p>, &Rooted<'_, '_>),
) {
    let _phase = process.enter(Phase::References);
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    tell_in_gc(process, runtime, &heap);
    let handles = handles_of(process, runtime);
    let graph = Graph::new(&types, &heap, &handles);
    let Roots { all: roots, notes, stray } = roots(&graph, heaps, &handles, stacks);
    tell(process, runtime, "roots", &notes);
    let retained = match Retained::find(&graph, &roots) {
        Ok(retained) => retained,
        Err(e) => {
            process.diag.partial("limit", format!("{}: {e}", runtime.name()));
            return;
        }
    };
    tell_walk(process, runtime, &heap, &retained.live.losses);
    let lead = [(retained.strays, "references"), (retained.live.stray_roots, "roots")];
    for (count, what) in lead.into_iter().filter(|l| l.0 > 0) {
        process.diag.partial(
            "heap",
            format!(
                "{}: {} {what} lead to no object; what they may keep is told as kept by others or unreachable",
                runtime.name(),
                exact(count)
            ),
        );
    }
    let rooted = Rooted { roots: &roots, methods, stacks: stack_roots(stacks, &roots, stray) };
    with(&retained, &mut ObjectNames::new(&types, &graph), &rooted);
}

/// How the stacks were read.
pub(super) fn stack_roots(stacks: &[StackRefs], roots: &[Root], stray: u64) -> StackRootsRow {
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

/// A path from `root`; `chain`: the objects on it.
pub(super) fn root_row(methods: &Methods<'_>, root: &Root, chain: Vec<ChainRow>) -> RootPathRow {
    RootPathRow {
        root_kind: root.kind.name(),
        root_address: root.address,
        thread: root.thread,
        register: root.register,
        precise: match root.kind {
            RootKind::Stack => Some(true),
            RootKind::StackWord => Some(false),
            _ => None,
        },
        slot: root.place.map(|place| match place {
            RefPlace::Slot(slot) => slot.to_string(),
            RefPlace::Listed(_, list) => list.to_owned(),
        }),
        frame: frame(methods, root),
        interior: root.interior,
        pinned: root.pinned,
        chain,
    }
}

//! Rows on roots, and on what they retain.

use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::across::OtherHolders;
use crate::analysis::heap_notes::{warn_in_gc, warn_losses};
use crate::bytes::printable;
use crate::diag::{WarningCode, was_read};
use crate::phase::Phase;
use crate::report::{ChainRow, RootFrameRow, RootPathRow, StackRootsRow, StretchRow};
use crate::runtimes::api::{
    CodeAt, Heap, Link, ManagedRuntime, ObjectNames, RefLocation, Root, RootKind, Roots, RuntimeId,
};
use crate::runtimes::graph::{Graph, GraphError, GraphSize, MemoryBudget, Path, Retained};
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::units::{count, exact, round};

/// Maximum number of path objects whose modules are searched for the static field at the start of a path.
const STATIC_TYPES: usize = 8;

/// The roots of one runtime's objects.
pub struct RuntimeRoots<'a> {
    /// All roots.
    pub roots: &'a [Root],
    pub id: RuntimeId,
    pub runtime: &'a dyn ManagedRuntime,
    /// Objects of other runtimes that hold objects of this one.
    pub others: OtherHolders,
    /// How the stacks were read.
    pub stacks: StackRootsRow,
    /// Roots and references that could not be read. If there are any, an object that no root reaches may be alive.
    pub not_read: Vec<String>,
}

/// State of objects that no root reaches.
pub enum Unreached {
    /// The next collection frees them.
    Collectible,
    /// They are unreachable, but nothing frees them, for this reason.
    Kept(&'static str),
    /// Not all roots and references were read, so they may be alive.
    Unknown,
}

impl RuntimeRoots<'_> {
    /// Returns the state of objects that no root reaches.
    pub fn unreached(&self) -> Unreached {
        if !self.not_read.is_empty() {
            return Unreached::Unknown;
        }
        self.runtime.collector_off().map_or(Unreached::Collectible, Unreached::Kept)
    }
}

/// Minimum number of objects for the conclusion that the reader is at fault if none has a reference. Every runtime has
/// tables of objects from its start.
const OBJECTS_WITHOUT_REFERENCES: u64 = 256;

/// Describes the roots and references of a heap that could not be read.
fn not_read(heap: &dyn Heap, roots: &Roots, retained: &Retained<'_>) -> Vec<String> {
    let mut out = roots.missing.clone();
    let dead = retained.unreachable().values().map(|tally| tally.count).saturating_sum();
    let objects = retained.total.count.saturating_add(dead);
    if retained.references == 0 && objects >= OBJECTS_WITHOUT_REFERENCES {
        out.push(format!("references between objects (none found in {})", count(objects, "object")));
    } else if heap.unread_references() > 0 {
        out.push(format!("references of objects of {}", count(heap.unread_references(), "type")));
    }
    out
}

/// Computes what all objects of each runtime retain, and passes it to `with`. Skips runtimes with too many objects.
/// Warns about everything that makes the result incomplete.
pub fn with_retained(
    session: &Session<'_>,
    mut with: impl for<'g> FnMut(&Retained<'g>, &mut ObjectNames<'g>, &RuntimeRoots<'_>),
) {
    let process = session.process;
    process.target().expect_scan();
    for (id, runtime) in session.runtimes_by_id() {
        let Some(heap) = runtime.heap() else { continue };
        let _phase = process.enter(Phase::References);
        warn_in_gc(process, runtime, heap);
        let (roots, retained) = match graph(session, id, heap) {
            Ok(found) => found,
            // The code that set the time limit reports it.
            Err(GraphError::OutOfTime) => continue,
            Err(e) => {
                process.diag.partial(WarningCode::Limit, format!("{}: {e}", runtime.label()));
                continue;
            }
        };
        warn_losses(process, runtime, heap, &retained.live.unwalked);
        let lead = [(retained.strays, "references"), (retained.live.stray_roots, "roots")];
        for (count, what) in lead.into_iter().filter(|l| l.0 > 0) {
            process.diag.partial(
                WarningCode::Heap,
                format!(
                    "{}: {} {what} point to no object; objects that they may retain count as retained by others or as unreachable",
                    runtime.label(),
                    exact(count)
                ),
            );
        }
        let mut not_read = not_read(heap, &roots, &retained);
        if !not_read.is_empty() {
            process.diag.partial(
                WarningCode::Heap,
                format!(
                    "{}: not read: {}; what only these retain counts as unreachable",
                    runtime.label(),
                    not_read.join(", ")
                ),
            );
        }
        // Other warnings describe these.
        if retained.live.unwalked.bytes > 0 {
            not_read.push(format!("{} of the heap", round(retained.live.unwalked.bytes)));
        }
        if heap.in_gc() {
            not_read.push("references that a collection was moving".to_owned());
        }
        // A concurrent collector moves objects while the program runs, and updates references later.
        let strays = retained.strays.saturating_add(retained.live.stray_roots);
        if strays > 0 {
            not_read.push(format!("targets of {}", count(strays, "stray reference")));
        }
        let others = OtherHolders::of(session, &roots.all);
        let stacks = stack_roots(&roots);
        let runtime_roots = RuntimeRoots { roots: &roots.all, runtime, id, others, stacks, not_read };
        with(&retained, &mut ObjectNames::new(heap), &runtime_roots);
        heap.warn_missing();
    }
}

/// Returns the budget for tables of graphs: the memory that is still allowed, or files.
pub fn room(session: &Session<'_>) -> MemoryBudget {
    let reads = session.process.target().reads();
    MemoryBudget::until(reads.spill_headroom(), Arc::clone(reads.deadline()))
}

/// Roots of a runtime's objects, and what these retain. Uses the stored result of an earlier call, if any.
fn graph<'g>(
    session: &Session<'_>,
    runtime: RuntimeId,
    heap: &'g dyn Heap,
) -> Result<(Arc<Roots>, Retained<'g>), GraphError> {
    let graph = Graph::new(heap);
    if let Some((roots, kept)) = session.graphs().get(runtime) {
        return Ok((roots, Retained::from_cached(graph, kept)));
    }
    was_read("graph");
    let roots = Arc::new(session.roots(runtime));
    let room = room(session);
    let retained = Retained::find(graph, &roots.all, &room, |needs| {
        let GraphSize { objects, references, bytes } = needs;
        tracing::debug!(objects, references, bytes, left = room.left(), "tables of the graph");
    })?;
    tracing::debug!(memory = room.peak(), files = room.in_files(), "tables of the graph took");
    session.graphs().put(runtime, || (Arc::clone(&roots), retained.to_cached()));
    Ok((roots, retained))
}

/// Counts of precise and conservative stack roots.
pub fn stack_roots(roots: &Roots) -> StackRootsRow {
    let of = |kind| roots.all.iter().filter(|r| r.kind == kind).count() as u64;
    let stacks = &roots.stacks;
    StackRootsRow {
        threads: stacks.threads,
        frames_precise: stacks.frames_precise,
        frames_conservative: stacks.frames_conservative,
        roots_precise: of(RootKind::Stack),
        roots_conservative: of(RootKind::StackWord),
        stray: roots.stray,
        conservative: stacks.conservative.iter().map(|&(why, threads)| StretchRow { why, threads }).collect(),
    }
}

/// Returns the frame that contains a root, with the name of its method.
fn frame(runtime: &dyn ManagedRuntime, root: &Root) -> Option<RootFrameRow> {
    let frame = root.frame?;
    // A call that never returns may be the method's last instruction, so look up the address before.
    let method = match runtime.code().code_at(if frame.exact { frame.ip } else { frame.ip.saturating_sub(1) })? {
        CodeAt::Method(method) => Some(printable(&method.name).into_owned()),
        _ => None,
    };
    Some(RootFrameRow { sp: frame.sp, ip: frame.ip, method })
}

/// Converts a path from `root` to a row. `chain`: the objects on the path.
pub fn root_row(runtime: &dyn ManagedRuntime, root: &Root, chain: Vec<ChainRow>) -> RootPathRow {
    RootPathRow {
        root_kind: root.kind.name().to_owned(),
        root_address: root.address,
        root_name: runtime.represents(root.object),
        thread: root.thread,
        register: root.register,
        precise: match root.kind {
            RootKind::Stack => Some(true),
            RootKind::StackWord => Some(false),
            _ => None,
        },
        slot: root.location.map(|place| match place {
            RefLocation::Slot(slot) => slot.to_string(),
            RefLocation::Listed(_, list) => list.to_owned(),
        }),
        frame: frame(runtime, root),
        interior: root.interior,
        pinned: root.pinned,
        chain,
    }
}

/// Adds the names of static variables to the fields of arrays at the start of a path.
pub fn name_statics(names: &mut ObjectNames<'_>, root: &Root, chain: &mut [ChainRow]) {
    let objects: Vec<Addr> = chain.iter().map(|row| row.object).collect();
    for (i, row) in chain.iter_mut().enumerate().take(usize::from(root.static_arrays)) {
        let Some(&next) = objects.get(i.saturating_add(1)) else { return };
        let Some(Link::Field(offset)) = names.reader.link(row.object.get(), next.get()) else { continue };
        let held = objects.iter().copied().skip(i.saturating_add(1)).take(STATIC_TYPES);
        if let Some(name) = names.static_at(row.object.saturating_add(offset), held) {
            let index = row.field.as_deref().unwrap_or_default();
            row.field = Some(format!("{index} ({name})").into());
        }
    }
}

/// Converts a path to a row, with the names of its objects and fields, and the static field at its start.
pub fn path_row(names: &mut ObjectNames<'_>, runtime: &dyn ManagedRuntime, path: &Path) -> RootPathRow {
    let mut chain: Vec<ChainRow> = path
        .steps
        .iter()
        .map(|&(object, link)| {
            let name = names.object(object).map(|(name, _)| name);
            ChainRow { object, name, field: link.and_then(|link| names.link(object, link)) }
        })
        .collect();
    name_statics(names, &path.root, &mut chain);
    root_row(runtime, &path.root, chain)
}

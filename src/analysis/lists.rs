//! Lists of objects: of a type, with finalizers, with sync blocks, exceptions.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use regex::Regex;

use crate::addr::Addr;
use crate::analysis::managed::{tell, tell_in_gc, with_heap};
use crate::analysis::object::string_text;
use crate::dotnet::finalizers;
use crate::dotnet::graph::Graph;
use crate::dotnet::heap::{Heap, Losses, MethodTableInfo};
use crate::dotnet::sync_blocks::{self, LockThread};
use crate::dotnet::{Heaps, Runtime, TypeSystem};
use crate::introspect::Findings;
use crate::limits;
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{
    ExceptionRow, ExceptionsReport, FinalizerRow, FinalizerTypeRow, FinalizersReport, ListedObject, LockThreadRow,
    Name, ObjectsReport, SyncBlockRow, SyncBlocksReport,
};
use crate::units::exact;

/// Objects that `pick` takes, by address, and how many more there are than listed.
fn list(
    process: &Process,
    runtime: &Runtime,
    heap: &Heap<'_>,
    pick: &(dyn Fn(&MethodTableInfo) -> bool + Sync),
) -> (Vec<ListedObject>, u64) {
    struct Share {
        known: HashMap<u32, Option<Name>>,
        out: Vec<ListedObject>,
        more: u64,
        losses: Losses,
    }
    let fresh = || Share { known: HashMap::new(), out: Vec::new(), more: 0, losses: Losses::default() };
    let of_part = |mut share: Share, part: &crate::dotnet::heap::Part| {
        let Share { known, out, more, losses } = &mut share;
        heap.walker().walk(part, losses, |object| {
            let name = known.entry(object.kind.0).or_insert_with(|| {
                heap.kind(object.kind).filter(|info| pick(info)).map(|info| heap.type_name(&info).into())
            });
            let Some(name) = name else { return };
            if out.len() >= limits::MAX_LISTED_OBJECTS {
                *more += 1;
                return;
            }
            out.push(ListedObject {
                address: object.addr,
                name: name.clone(),
                size: object.size,
                generation: part.generation.name(),
                heap: part.heap,
            });
        });
        share
    };
    let join = |mut a: Share, b: Share| {
        a.out.extend(b.out);
        a.more += b.more;
        a.losses.bytes = a.losses.bytes.saturating_add(b.losses.bytes);
        a
    };
    let mut share = heap.parts().par_iter().fold(fresh, of_part).reduce(fresh, join);
    if share.losses.bytes > 0 {
        process.diag.partial(
            "heap-walk",
            format!("{}: {} bytes of the heap could not be walked", runtime.name(), exact(share.losses.bytes)),
        );
    }
    share.out.sort_by_key(|o| o.address);
    share.more += share.out.len().saturating_sub(limits::MAX_LISTED_OBJECTS) as u64;
    share.out.truncate(limits::MAX_LISTED_OBJECTS);
    (share.out, share.more)
}

/// List the objects of the types whose name matches.
pub fn objects(process: &Process, found: &Findings, name: &Regex) -> ObjectsReport {
    process.target().expect_scan();
    let mut report = ObjectsReport::default();
    for (runtime, heaps) in with_heap(&found.runtimes) {
        let _phase = process.enter(Phase::References);
        let types = TypeSystem::new(process, runtime);
        let heap = Heap::open(&types, heaps);
        tell_in_gc(process, runtime, &heap);
        let (objects, more) = list(process, runtime, &heap, &|info| name.is_match(&heap.type_name(info)));
        report.more += more;
        report.size = objects.iter().map(|o| o.size).fold(report.size, u64::saturating_add);
        report.objects.extend(objects);
    }
    report
}

/// A name of the type of any object.
struct Types<'t, 'p> {
    heap: &'t Heap<'p>,
    graph: &'t Graph<'t, 'p>,
    names: HashMap<Addr, Name>,
}

impl Types<'_, '_> {
    fn of(&mut self, object: Addr) -> Option<(Name, u64)> {
        let mut reader = self.graph.reader();
        let node = reader.node(object.get())?;
        let (info, size) = (node.layout.info, node.size);
        let name = self.names.entry(info.address).or_insert_with(|| self.heap.type_name(&info).into());
        Some((name.clone(), size))
    }
}

fn with_types<R>(process: &Process, runtime: &Runtime, heaps: &Heaps, f: impl FnOnce(&mut Types<'_, '_>) -> R) -> R {
    let _phase = process.enter(Phase::References);
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    tell_in_gc(process, runtime, &heap);
    let graph = Graph::new(&types, &heap, &[]);
    f(&mut Types { heap: &heap, graph: &graph, names: HashMap::new() })
}

/// List the objects with finalizers.
pub fn finalizers(process: &Process, found: &Findings) -> FinalizersReport {
    let mut report = FinalizersReport::default();
    for (runtime, heaps) in with_heap(&found.runtimes) {
        let (queues, notes) = finalizers::read(process, runtime, heaps);
        tell(process, runtime, "finalizers", &notes);
        with_types(process, runtime, heaps, |types| {
            for queue in &queues {
                let registered = queue.registered.iter().map(|&(generation, _, object)| (Some(generation), object));
                let ready = queue.ready.iter().map(|&(_, object)| (None, object));
                for (generation, object) in registered.chain(ready) {
                    let (name, size) = types.of(object).unzip();
                    report.objects.push(FinalizerRow {
                        object,
                        name,
                        size,
                        state: if generation.is_some() { "registered" } else { "ready" },
                        generation,
                        heap: queue.heap,
                    });
                }
            }
        });
    }
    let mut by_type: BTreeMap<(&str, &'static str), u64> = BTreeMap::new();
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

/// List sync blocks with owners and waiters of their locks.
pub fn syncblocks(process: &Process, found: &Findings) -> SyncBlocksReport {
    let mut report = SyncBlocksReport::default();
    let thread = |t: &LockThread| LockThreadRow { address: t.address, tid: t.os_id, managed_id: t.managed_id };
    for (runtime, heaps) in &found.runtimes {
        let (blocks, notes) = sync_blocks::read(process, runtime);
        tell(process, runtime, "sync blocks", &notes);
        with_types(process, runtime, heaps, |types| {
            report.blocks.extend(blocks.iter().map(|b| SyncBlockRow {
                index: b.index,
                address: b.address,
                object: b.object,
                name: types.of(b.object).map(|(name, _)| name),
                held: b.held,
                owner: b.owner.as_ref().map(thread),
                recursion: b.recursion,
                waiting: b.waiting,
                pulse: b.pulse.iter().map(thread).collect(),
            }));
        });
    }
    report
}

/// List all exception objects.
pub fn exceptions(process: &Process, found: &Findings) -> ExceptionsReport {
    process.target().expect_scan();
    let mut report = ExceptionsReport::default();
    for (runtime, heaps) in with_heap(&found.runtimes) {
        let _phase = process.enter(Phase::References);
        let types = TypeSystem::new(process, runtime);
        let heap = Heap::open(&types, heaps);
        tell_in_gc(process, runtime, &heap);
        let base = types.runtime.roots.pointer(types.memory, &types.runtime.layout, "ExceptionMethodTable").ok();
        let is_exception = |info: &MethodTableInfo| {
            let is_base = |at| base.map_or_else(|| types.display_name(at) == "System.Exception", |base| base == at);
            !info.free && types.bases(info.address).into_iter().any(is_base)
        };
        let (objects, more) = list(process, runtime, &heap, &is_exception);
        report.more += more;
        if base.is_none() && types.modules().iter().any(|m| m.missing.is_some()) {
            process.diag.partial(
                "metadata",
                format!(
                    "{}: exceptions are told by name, and not all modules' metadata is in the core",
                    runtime.name()
                ),
            );
        }
        let graph = Graph::new(&types, &heap, &[]);
        let mut reader = graph.reader();
        let mut places: HashMap<Addr, HashMap<String, u64>> = HashMap::new();
        for object in objects {
            let Some(info) = reader.node(object.address.get()).map(|n| n.layout.info) else { continue };
            let fields = places.entry(info.address).or_insert_with(|| {
                types.object_fields(info.address).iter().map(|f| (types.field_name(f), f.offset)).collect()
            });
            let at = |name: &str| {
                let described = || types.runtime.layout.positive("Exception", name).ok();
                let offset = fields.get(name).copied().or_else(described)?;
                Some(object.address.saturating_add(offset))
            };
            let held = |name| types.memory.ptr(at(name)?).ok().filter(|o| !o.is_null());
            report.exceptions.push(ExceptionRow {
                message: held("_message").and_then(|s| string_text(&types, s, limits::MAX_SHOWN_STRING)),
                hresult: at("_HResult").and_then(|a| types.memory.u32(a).ok()).map(|h| format!("0x{h:08x}")),
                inner: held("_innerException"),
                thrown: at("_stackTrace").map(|_| held("_stackTrace").is_some()),
                object: object.address,
                name: object.name,
                generation: object.generation,
            });
        }
    }
    report
}

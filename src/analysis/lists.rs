//! Lists of objects: of a type, with finalizers, with sync blocks, exceptions.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use regex::Regex;

use crate::addr::Addr;
use crate::analysis::managed::{ObjectNames, tell_in_gc};
use crate::analysis::object::string_text;
use crate::dotnet::sync_blocks::{self, LockThread};
use crate::dotnet::{CoreClr, finalizers};
use crate::limits;
use crate::managed::{Heap, Losses, Part, TypeIndex};
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{
    ExceptionRow, ExceptionsReport, FinalizerRow, FinalizerTypeRow, FinalizersReport, ListedObject, LockThreadRow,
    Name, ObjectsReport, SyncBlockRow, SyncBlocksReport,
};
use crate::session::Session;
use crate::units::exact;

/// Objects that `pick` takes, by address, and how many more there are than listed.
fn list(
    process: &Process,
    runtime: &CoreClr<'_>,
    heap: &dyn Heap,
    pick: &(dyn Fn(TypeIndex) -> bool + Sync),
) -> (Vec<ListedObject>, u64) {
    struct Share {
        known: HashMap<u32, Option<Name>>,
        out: Vec<ListedObject>,
        more: u64,
        losses: Losses,
    }
    let fresh = || Share { known: HashMap::new(), out: Vec::new(), more: 0, losses: Losses::default() };
    let of_part = |mut share: Share, part: &Part| {
        let Share { known, out, more, losses } = &mut share;
        heap.walker().walk(part, losses, &mut |object| {
            let name = known
                .entry(object.kind.0)
                .or_insert_with(|| pick(object.kind).then(|| heap.type_name(object.kind).into()));
            let Some(name) = name else { return };
            if out.len() >= limits::MAX_LISTED_OBJECTS {
                *more += 1;
                return;
            }
            out.push(ListedObject {
                address: object.addr,
                name: name.clone(),
                size: object.size,
                generation: part.generation.name,
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
            format!("{}: {} bytes of the heap could not be walked", runtime.label(), exact(share.losses.bytes)),
        );
    }
    share.out.sort_by_key(|o| o.address);
    share.more += share.out.len().saturating_sub(limits::MAX_LISTED_OBJECTS) as u64;
    share.out.truncate(limits::MAX_LISTED_OBJECTS);
    (share.out, share.more)
}

/// List the objects of the types whose name matches.
pub fn objects(session: &Session<'_>, name: &Regex) -> ObjectsReport {
    session.process.target().expect_scan();
    let mut report = ObjectsReport::default();
    for runtime in session.runtimes() {
        let Some(heap) = runtime.heap() else { continue };
        let _phase = session.process.enter(Phase::References);
        tell_in_gc(session.process, runtime, heap);
        let (objects, more) = list(session.process, runtime, heap, &|kind| name.is_match(&heap.type_name(kind)));
        report.more += more;
        report.size = objects.iter().map(|o| o.size).fold(report.size, u64::saturating_add);
        report.objects.extend(objects);
    }
    report
}

/// List the objects with finalizers.
pub fn finalizers(session: &Session<'_>) -> FinalizersReport {
    let mut report = FinalizersReport::default();
    for runtime in session.coreclr() {
        let Some(heap) = runtime.heap() else { continue };
        let (queues, notes) = finalizers::read(session.process, runtime.runtime(), runtime.heaps());
        runtime.tell("finalizers", &notes);
        {
            let _phase = session.process.enter(Phase::References);
            tell_in_gc(session.process, runtime, heap);
            let mut names = ObjectNames::new(heap);
            for queue in &queues {
                let registered = queue.registered.iter().map(|&(generation, _, object)| (Some(generation), object));
                let ready = queue.ready.iter().map(|&(_, object)| (None, object));
                for (generation, object) in registered.chain(ready) {
                    let (name, size) = names.object(object).unzip();
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
        }
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
pub fn syncblocks(session: &Session<'_>) -> SyncBlocksReport {
    let mut report = SyncBlocksReport::default();
    let thread = |t: &LockThread| LockThreadRow { address: t.address, tid: t.os_id, managed_id: t.managed_id };
    for runtime in session.coreclr() {
        let (blocks, notes) = sync_blocks::read(session.process, runtime.runtime());
        runtime.tell("sync blocks", &notes);
        let _phase = session.process.enter(Phase::References);
        tell_in_gc(session.process, runtime, runtime.objects());
        let mut names = ObjectNames::new(runtime.objects());
        report.blocks.extend(blocks.iter().map(|b| SyncBlockRow {
            index: b.index,
            address: b.address,
            object: b.object,
            name: names.object(b.object).map(|(name, _)| name),
            held: b.held,
            owner: b.owner.as_ref().map(thread),
            recursion: b.recursion,
            waiting: b.waiting,
            pulse: b.pulse.iter().map(thread).collect(),
        }));
    }
    report
}

/// List all exception objects.
pub fn exceptions(session: &Session<'_>) -> ExceptionsReport {
    session.process.target().expect_scan();
    let mut report = ExceptionsReport::default();
    for runtime in session.coreclr() {
        let Some(heap) = runtime.heap() else { continue };
        let types = runtime.types();
        let _phase = session.process.enter(Phase::References);
        tell_in_gc(session.process, runtime, heap);
        let base = types.runtime.roots.pointer(types.memory, &types.runtime.layout, "ExceptionMethodTable").ok();
        let is_exception = |kind: TypeIndex| {
            let is_base = |at| base.map_or_else(|| types.display_name(at) == "System.Exception", |base| base == at);
            let info = heap.method_table(kind).filter(|info| !info.free);
            info.is_some_and(|info| types.bases(info.address).into_iter().any(is_base))
        };
        let (objects, more) = list(session.process, runtime, heap, &is_exception);
        report.more += more;
        if base.is_none() && types.modules().iter().any(|m| m.missing.is_some()) {
            session.process.diag.partial(
                "metadata",
                format!(
                    "{}: exceptions are told by name, and not all modules' metadata is in the core",
                    runtime.label()
                ),
            );
        }
        let mut names = ObjectNames::new(heap);
        let mut places: HashMap<Addr, HashMap<String, u64>> = HashMap::new();
        for object in objects {
            let Some(info) = names.info(object.address) else { continue };
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
                message: held("_message").and_then(|s| string_text(types, s, limits::MAX_SHOWN_STRING)),
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

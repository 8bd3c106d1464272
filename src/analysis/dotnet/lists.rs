//! Objects with finalizers, with sync blocks, exceptions.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::analysis::heap_notes::tell_in_gc;
use crate::analysis::objects::list;
use crate::dotnet::sync_blocks::{self, LockThread};
use crate::dotnet::{finalizers, string_text};
use crate::limits;
use crate::managed::{ManagedRuntime as _, ObjectNames, TypeIndex};
use crate::phase::Phase;
use crate::report::{
    ExceptionRow, ExceptionsReport, FinalizerRow, FinalizerState, FinalizerTypeRow, FinalizersReport, LockThreadRow,
    SyncBlockRow, SyncBlocksReport,
};
use crate::session::Session;

/// List the objects with finalizers.
pub fn finalizers(session: &Session<'_>) -> FinalizersReport {
    let mut report = FinalizersReport::default();
    for runtime in session.coreclr() {
        let Some(heap) = runtime.heap_of_objects() else { continue };
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
                        state: if generation.is_some() { FinalizerState::Registered } else { FinalizerState::Ready },
                        generation,
                        heap: queue.heap,
                    });
                }
            }
        }
    }
    let mut by_type: BTreeMap<(&str, FinalizerState), u64> = BTreeMap::new();
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
        let Some(heap) = runtime.heap_of_objects() else { continue };
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

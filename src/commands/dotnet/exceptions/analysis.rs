use std::collections::{HashMap, HashSet, VecDeque};

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::listing::list;
use crate::commands::dotnet::exceptions::report::{ExceptionRow, ExceptionsReport};
use crate::commands::dotnet::{coreclr_by_id, unread};
use crate::diag::WarningCode;
use crate::limits;
use crate::phase::Phase;
use crate::report::Name;
use crate::runtimes::api::{ExceptionList, Heap as _, ManagedRuntime as _, ObjectNames, TypeIndex};
use crate::runtimes::coreclr::string_text;
use crate::session::Session;
use crate::sums::SaturatingAdd;

/// Generation of an object that is in no segment that was read.
const UNKNOWN: &str = "unknown";

/// An exception object.
struct ExceptionObject {
    address: Addr,
    name: Name,
    generation: &'static str,
}

/// Lists all exception objects: those of the heap, those that threads threw last, and the inner ones of both.
pub fn exceptions(session: &Session<'_>) -> ExceptionsReport {
    session.process.target().expect_scan();
    let mut report = ExceptionsReport::default();
    let mut read = Vec::new();
    for (id, runtime) in coreclr_by_id(session) {
        let Some(heap) = runtime.object_heap() else { continue };
        let types = runtime.types();
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, heap);
        let base = types.runtime.globals.pointer(types.memory, &types.runtime.layout, "ExceptionMethodTable").ok();
        let is_base = |at| base.map_or_else(|| types.display_name(at) == "System.Exception", |base| base == at);
        let is_exception = |kind: TypeIndex| {
            let info = heap.method_table(kind).filter(|info| !info.free);
            info.is_some_and(|info| types.bases(info.address).into_iter().any(is_base))
        };
        let (objects, mut more) = list(session.process, runtime, heap, None, &is_exception);
        // Without the class and its name, no object is known to be an exception: an empty list would prove nothing.
        if base.is_some() || !objects.is_empty() || types.modules().iter().all(|m| m.missing.is_none()) {
            read.push(id);
        } else {
            session.process.diag.note(
                WarningCode::Metadata,
                format!(
                    "{}: exceptions are found by type name, and the metadata of some modules is not in the core",
                    runtime.label()
                ),
            );
        }
        let mut names = ObjectNames::new(heap);
        let mut offsets: HashMap<Addr, HashMap<String, u64>> = HashMap::new();
        let mut seen: HashSet<Addr> = objects.iter().map(|object| object.address).collect();
        let mut found: VecDeque<ExceptionObject> = objects
            .into_iter()
            .map(|object| ExceptionObject { address: object.address, name: object.name, generation: object.generation })
            .collect();
        // A small dump has a thread's exception without the objects before it, so that the walk does not reach it.
        let mut others = limits::MAX_INNER_EXCEPTIONS;
        let mut add = |address: Addr, found: &mut VecDeque<ExceptionObject>| {
            if !seen.insert(address) {
                return;
            }
            let Some(table) = types.type_of(address) else { return };
            if !types.bases(table).into_iter().any(is_base) {
                return;
            }
            if others == 0 {
                more = more.saturating_add(1);
                return;
            }
            others -= 1;
            let range = heap.ranges().iter().find(|range| range.range.contains(address));
            let generation = range.map_or(UNKNOWN, |range| range.generation.name);
            found.push_back(ExceptionObject { address, name: types.display_name(table).into(), generation });
        };
        for address in runtime.thrown() {
            add(address, &mut found);
        }
        let mut rows = Vec::new();
        while let Some(ExceptionObject { address, name, generation }) = found.pop_front() {
            let Some(table) = names.info(address).map(|info| info.address).or_else(|| types.type_of(address)) else {
                continue;
            };
            let fields = offsets.entry(table).or_insert_with(|| {
                // A derived class may have fields of the same names.
                let base = types.bases(table).into_iter().find(|at| is_base(*at));
                let fields = base.map_or_else(Vec::new, |base| types.object_fields(base));
                fields.iter().map(|f| (types.field_name(f), f.offset)).collect()
            });
            let at = |name: &str| {
                let described = || types.runtime.layout.positive("Exception", name).ok();
                let offset = fields.get(name).copied().or_else(described)?;
                Some(address.saturating_add(offset))
            };
            let held = |name| types.memory.ptr(at(name)?).ok().filter(|o| !o.is_null());
            let inner = held("_innerException");
            rows.push(ExceptionRow {
                message: held("_message").and_then(|s| string_text(types, s, limits::MAX_SHOWN_STRING)),
                hresult: at("_HResult").and_then(|a| types.memory.u32(a).ok()).map(|h| format!("0x{h:08x}")),
                inner,
                thrown: at("_stackTrace").map(|_| held("_stackTrace").is_some()),
                object: address,
                name,
                generation,
            });
            if let Some(inner) = inner {
                add(inner, &mut found);
            }
        }
        report.more.add_saturating(more);
        rows.sort_by_key(|row| row.object);
        report.exceptions.append(&mut rows);
    }
    for (id, runtime) in session.runtimes_by_id() {
        let Some((listed, more)) = runtime.exception_list().and_then(ExceptionList::listed_exceptions) else {
            continue;
        };
        read.push(id);
        if let Some(heap) = runtime.heap() {
            warn_in_gc(session.process, runtime, heap);
        }
        report.more.add_saturating(more);
        report.exceptions.extend(listed.into_iter().map(|found| ExceptionRow {
            object: found.object,
            name: Name::from(found.type_name),
            message: found.message,
            hresult: found.hresult.map(|h| format!("0x{h:08x}")),
            inner: found.inner,
            thrown: found.thrown,
            generation: found.generation,
        }));
    }
    report.unread = unread(session, &read);
    report
}

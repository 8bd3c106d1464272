use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::listing::list;
use crate::commands::dotnet::exceptions::report::{ExceptionRow, ExceptionsReport};
use crate::commands::dotnet::{coreclr_by_id, unread};
use crate::diag::WarningCode;
use crate::limits;
use crate::phase::Phase;
use crate::runtimes::api::{ManagedRuntime as _, ObjectNames, TypeIndex};
use crate::runtimes::coreclr::string_text;
use crate::session::Session;
use crate::sums::SaturatingAdd;

/// Lists all exception objects.
pub fn exceptions(session: &Session<'_>) -> ExceptionsReport {
    session.process.target().expect_scan();
    let mut report = ExceptionsReport::default();
    let mut read = Vec::new();
    for (id, runtime) in coreclr_by_id(session) {
        let Some(heap) = runtime.object_heap() else { continue };
        read.push(id);
        let types = runtime.types();
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, heap);
        let base = types.runtime.globals.pointer(types.memory, &types.runtime.layout, "ExceptionMethodTable").ok();
        let is_exception = |kind: TypeIndex| {
            let is_base = |at| base.map_or_else(|| types.display_name(at) == "System.Exception", |base| base == at);
            let info = heap.method_table(kind).filter(|info| !info.free);
            info.is_some_and(|info| types.bases(info.address).into_iter().any(is_base))
        };
        let (objects, more) = list(session.process, runtime, heap, &is_exception);
        report.more.add_saturating(more);
        if base.is_none() && types.modules().iter().any(|m| m.missing.is_some()) {
            session.process.diag.note(
                WarningCode::Metadata,
                format!(
                    "{}: exceptions are found by type name, and the metadata of some modules is not in the core",
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
    report.unread = unread(session, &read);
    report
}

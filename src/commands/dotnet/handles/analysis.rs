use std::collections::{HashMap, HashSet};

use regex::Regex;

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::commands::dotnet::handles::report::{HandleGroupRow, HandleKindRow, HandleRow, HandlesReport};
use crate::commands::dotnet::{clr_gcs, unread};
use crate::diag::WarningCode;
use crate::report::HandleKind;
use crate::runtimes::api::{Handle, Heap, ManagedRuntime, ObjectNames};
use crate::session::Session;

/// Options of `handles`.
#[derive(Clone, Debug, Default)]
pub struct HandleOptions {
    /// List only handles to objects of types whose name matches.
    pub name: Option<Regex>,
    /// Also group the handles by kind and type.
    pub group: bool,
}

/// Lists the GC handles of all runtimes.
pub fn handles(session: &Session<'_>, options: &HandleOptions) -> HandlesReport {
    let mut report = HandlesReport::default();
    let mut read = Vec::new();
    for (id, runtime, gc) in clr_gcs(session) {
        let Some(heap) = gc.objects() else { continue };
        // A handle keeps the static variables alive, so a runtime whose handles were read has some.
        if !gc.handles().is_empty() {
            read.push(id);
        }
        list(session, options, runtime, heap, gc.handles(), &mut report.handles);
    }
    report.unread = unread(session, &read);
    report.groups = options.group.then(|| groups(&report.handles));
    for handle in &report.handles {
        match report.kinds.iter_mut().find(|k| k.kind == handle.kind) {
            Some(row) => row.count += 1,
            None => report.kinds.push(HandleKindRow { kind: handle.kind, count: 1 }),
        }
    }
    report.kinds.sort_by_key(|k| (std::cmp::Reverse(k.count), k.kind.name()));
    report
}

/// Adds the handles of one runtime.
fn list(
    session: &Session<'_>,
    options: &HandleOptions,
    runtime: &dyn ManagedRuntime,
    heap: &dyn Heap,
    handles: &[Handle],
    out: &mut Vec<HandleRow>,
) {
    let process = session.process;
    let mut names = ObjectNames::new(heap);
    warn_in_gc(process, runtime, heap);
    let unknown = handles.iter().filter(|h| names.node(h.object).is_none()).count();
    if unknown > 0 {
        let (label, all) = (runtime.label(), handles.len());
        let why = format!("{label}: {unknown} of {all} handles point outside the core");
        process.diag.partial(WarningCode::Handles, why);
    }
    for h in handles {
        let (name, size) = names.object(h.object).unzip();
        let asked = |re: &Regex| name.as_deref().is_some_and(|name: &str| re.is_match(name));
        if !options.name.as_ref().is_none_or(asked) {
            continue;
        }
        out.push(HandleRow {
            address: h.address,
            kind: h.kind,
            object: h.object,
            name,
            secondary: h.secondary,
            secondary_type: h.secondary.and_then(|object| Some(names.object(object)?.0)),
            size,
        });
    }
}

fn groups(handles: &[HandleRow]) -> Vec<HandleGroupRow> {
    let mut groups: HashMap<(HandleKind, Option<&str>), HandleGroupRow> = HashMap::new();
    let mut counted: HashSet<(HandleKind, Addr)> = HashSet::new();
    for h in handles {
        let group = groups.entry((h.kind, h.name.as_deref())).or_insert_with(|| HandleGroupRow {
            kind: h.kind,
            name: h.name.clone(),
            example: h.object,
            ..HandleGroupRow::default()
        });
        group.count += 1;
        if counted.insert((h.kind, h.object)) {
            group.bytes = group.bytes.saturating_add(h.size.unwrap_or(0));
        }
    }
    let mut rows: Vec<HandleGroupRow> = groups.into_values().collect();
    rows.sort_by(|a, b| {
        let figures = (b.bytes, b.count).cmp(&(a.bytes, a.count));
        figures.then_with(|| (a.kind.name(), a.name.as_deref()).cmp(&(b.kind.name(), b.name.as_deref())))
    });
    rows
}

//! Thread objects of the module `threading`: `threading._active`, a dict by ident.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::cpython::objects::{Entry, Objects};
use crate::runtimes::cpython::runtime::Runtime;

/// Data from a `threading.Thread`.
#[derive(Clone, Debug)]
pub(in crate::runtimes::cpython) struct ThreadObject {
    pub(in crate::runtimes::cpython) name: Option<String>,
    pub(in crate::runtimes::cpython) daemon: bool,
}

/// An interpreter's Thread objects by ident. Empty if it has not imported `threading`.
pub(super) fn thread_objects(
    runtime: &Runtime<'_>,
    objects: &Objects<'_>,
    interpreter: Addr,
) -> HashMap<u64, ThreadObject> {
    let mut out = HashMap::new();
    each_active(runtime, objects, interpreter, |entry| {
        let ident = objects.integer(entry.key).filter(|_| objects.is_int(entry.key));
        if let Some(ident) = ident.and_then(|ident| u64::try_from(ident).ok()) {
            let attribute = |name| objects.attribute(entry.value, name);
            let daemon = attribute("_daemonic").and_then(|value| objects.integer(value)) == Some(1);
            let name = attribute("_name").and_then(|name| objects.str_at(name));
            out.insert(ident, ThreadObject { name, daemon });
        }
    });
    out
}

/// Objects that reports show for threads: their idents and names.
pub(super) fn shown_objects(runtime: &Runtime<'_>, objects: &Objects<'_>, interpreter: Addr) -> Vec<Addr> {
    let mut out = Vec::new();
    each_active(runtime, objects, interpreter, |entry| {
        out.push(entry.key);
        out.extend(objects.attribute(entry.value, "_name"));
    });
    out
}

/// Visits the entries of `threading._active`.
fn each_active(runtime: &Runtime<'_>, objects: &Objects<'_>, interpreter: Addr, mut visit: impl FnMut(Entry)) {
    let mut read = || {
        let module = runtime.module_dict(objects, interpreter, "threading")?;
        let active = objects.lookup(module, "_active")?;
        objects.each_entry(active, limits::MAX_PY_THREADS as u64, |entry| {
            visit(entry);
            true
        })
    };
    // Without the module there are no threads.
    let _: Option<()> = read();
}

//! Types at an address, for `whatis`.

use crate::addr::Addr;
use crate::map::Kind;
use crate::runtimes::api::Structure;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::objects::flags;

/// The type that begins at `addr`. Static types are in a module's data, other types in the heap.
pub(super) fn structure(python: &CPython<'_>, addr: Addr, kind: Kind) -> Option<Structure> {
    if kind != Kind::Image && !kind.holds_objects() && !kind.holds_blocks() {
        return None;
    }
    let runtime = python.runtime();
    // A cheap check first, because there is a type at almost no address.
    if !runtime.objects().is_type(addr) {
        return None;
    }
    let found = python.objects()?.type_at(addr)?;
    let module = match found.is(flags::HEAPTYPE) {
        true => found.name.rsplit_once('.').map_or("builtins", |(module, _)| module).to_owned(),
        false => {
            let modules = &runtime.process.modules;
            let of = modules.iter().filter(|module| module.range.contains(addr)).min_by_key(|m| m.range.len());
            of.map(|module| crate::bytes::printable(module.name()).into_owned()).unwrap_or_default()
        }
    };
    Some(Structure::Descriptor { kind: "PyTypeObject", name: found.name.clone(), module })
}

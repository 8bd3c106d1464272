//! One object, much as `vars()` and `pprint` would show it: values of texts and numbers, contents of containers,
//! attributes of instances.

mod attributes;
mod brief;
mod code;
mod containers;

pub(super) use brief::Brief;
pub(super) use code::function_name;

use crate::addr::Addr;
use crate::facts::ObjectReport;
use crate::limits;
use crate::runtimes::api::{Heap as _, ObjectNames};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::Form;

/// Describes the object at `addr`, or the one that contains `addr`. For memory owned by an object, describes the owner.
pub(super) fn object(python: &CPython<'_>, addr: Addr) -> Option<ObjectReport> {
    let heap = python.objects()?;
    let mut names = ObjectNames::new(heap);
    let target = target(python, heap, &names, addr)?;
    let brief = Brief::new(heap);
    let Some(kind) = brief.kind_of(target) else {
        // A used block without a known owner.
        let (name, size) = names.object(target)?;
        return Some(ObjectReport { object: target, name: Some(name), size: Some(size), ..ObjectReport::default() });
    };
    let part = heap.parts().iter().find(|part| part.range.contains(target));
    let mut report = ObjectReport {
        object: target,
        name: Some(kind.name.clone().into()),
        method_table: Some(kind.address),
        size: names.object(target).map(|(_, size)| size),
        generation: part.map(|part| part.generation.name),
        heap: part.map(|part| part.heap),
        value: brief.value(target, &kind, limits::MAX_SHOWN_TEXT),
        ..ObjectReport::default()
    };
    containers::fill(heap, &brief, &mut report, &kind);
    attributes::fill(heap, &brief, &mut report, &kind);
    if kind.form == Form::Type {
        report.statics = brief.attributes_of_type(target);
    } else if kind.name == "module" {
        report.statics = brief.globals(target);
    }
    Some(report)
}

fn target(python: &CPython<'_>, heap: &Heap<'_>, names: &ObjectNames<'_>, addr: Addr) -> Option<Addr> {
    if heap.type_of(addr).is_some() {
        return Some(addr);
    }
    let Some(inside) = names.containing(addr) else {
        // Static objects are in no part of the heap.
        let is_static = python.runtime().process.modules.iter().any(|module| module.range.contains(addr));
        return (is_static && Brief::new(heap).kind_of(addr).is_some()).then_some(addr);
    };
    if heap.type_of(inside).is_some() {
        return Some(inside);
    }
    Some(
        super::buffers::buffer_of(heap, crate::runtimes::api::ManagedRuntime::buffers(python), addr)
            .map_or(inside, |buffer| buffer.object),
    )
}

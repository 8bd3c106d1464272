//! One object, much as `vars()` and `pprint` would show it: values of texts and numbers, contents of containers,
//! attributes of instances.

mod attributes;
mod code;
mod containers;
mod short_text;

pub(super) use code::function_name;
pub(super) use short_text::ShortText;

use crate::addr::Addr;
use crate::facts::ObjectReport;
use crate::limits;
use crate::runtimes::api::{Heap as _, ObjectNames};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::TypeForm;

/// Describes the object at `addr`, or the one that contains `addr`. For memory owned by an object, describes the owner.
pub(super) fn object(python: &CPython<'_>, addr: Addr) -> Option<ObjectReport> {
    let heap = python.objects()?;
    let mut names = ObjectNames::new(heap);
    let target = target(python, heap, &names, addr)?;
    let short_text = ShortText::new(heap);
    let Some(kind) = short_text.kind_of(target) else {
        // A used block without a known owner.
        let (name, size) = names.object(target)?;
        return Some(ObjectReport { object: target, name: Some(name), size: Some(size), ..ObjectReport::default() });
    };
    let heap_range = heap.ranges().iter().find(|heap_range| heap_range.range.contains(target));
    let mut report = ObjectReport {
        object: target,
        name: Some(kind.name.clone().into()),
        method_table: Some(kind.address),
        size: names.object(target).map(|(_, size)| size),
        generation: heap_range.map(|heap_range| heap_range.generation.name),
        heap: heap_range.map(|heap_range| heap_range.heap),
        value: short_text.value(target, &kind, limits::MAX_SHOWN_TEXT),
        ..ObjectReport::default()
    };
    containers::fill(heap, &short_text, &mut report, &kind);
    attributes::fill(heap, &short_text, &mut report, &kind);
    if kind.form == TypeForm::Type {
        report.statics = short_text.attributes_of_type(target);
    } else if kind.name == "module" {
        report.statics = short_text.globals(target);
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
        return (is_static && ShortText::new(heap).kind_of(addr).is_some()).then_some(addr);
    };
    if heap.type_of(inside).is_some() {
        return Some(inside);
    }
    Some(
        super::buffers::buffer_of(heap, crate::runtimes::api::ManagedRuntime::buffers(python), addr)
            .map_or(inside, |buffer| buffer.object),
    )
}

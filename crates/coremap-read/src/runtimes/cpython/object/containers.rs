//! Contents of containers: items of lists and tuples by index, entries of dicts by key.

use crate::addr::Addr;
use crate::facts::{CollectionDetail, EntryRow, ObjectReport};
use crate::limits;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::ShortText;
use crate::runtimes::cpython::objects::{PyType, TypeForm};

/// Adds the contents of `report.object` and their number to `report`.
pub(super) fn fill(heap: &Heap<'_>, short_text: &ShortText<'_, '_>, report: &mut ObjectReport, kind: &PyType) {
    let object = report.object;
    report.length = short_text.length(object, kind);
    match kind.form {
        TypeForm::Dict => report.collection = Some(entries(heap, short_text, object, report.length.unwrap_or(0))),
        TypeForm::Set => {
            let mut found = CollectionDetail { count: report.length.unwrap_or(0), entries: Vec::new() };
            items(heap, object, kind, |index, item| {
                found.entries.push(EntryRow { key: None, value: short_text.element(index, item) });
                found.entries.len() < limits::MAX_SHOWN_ENTRIES
            });
            report.collection = Some(found);
        }
        TypeForm::List | TypeForm::Deque => elements(heap, short_text, report, kind),
        TypeForm::Plain if kind.itemsize == 8 => {
            elements(heap, short_text, report, kind);
            named(heap, short_text, report, kind);
        }
        _ => {}
    }
}

/// Class attributes with the names of a named tuple's items: of classes, and of types written in C.
const NAMES: [&str; 2] = ["_fields", "__match_args__"];

/// Adds the items of a named tuple as fields.
fn named(heap: &Heap<'_>, short_text: &ShortText<'_, '_>, report: &mut ObjectReport, kind: &PyType) {
    let objects = heap.objects();
    let dict = objects.ptr_at(kind.address, objects.shape.types.dict).filter(|dict| !dict.is_null());
    let names = dict.and_then(|dict| NAMES.iter().find_map(|name| objects.lookup(dict, name)));
    let Some((names, of)) = names.and_then(|names| Some((names, heap.type_of(names)?))) else { return };
    let mut found = Vec::new();
    items(heap, names, &of, |index, name| {
        found.push((index, objects.is_str(name).then(|| objects.name(name)).flatten()));
        found.len() < limits::MAX_SHOWN_ROWS
    });
    items(heap, report.object, kind, |index, item| {
        let name = found.iter().find(|(at, _)| *at == index).and_then(|(_, name)| name.clone());
        let offset = kind.basicsize.saturating_add(index.saturating_mul(8));
        let place = report.object.wrapping_add(offset);
        report.fields.extend(
            name.map(|name| short_text.field(name, offset, Some(place), item, crate::words::FieldStorage::Instance)),
        );
        (index as usize) < found.len()
    });
}

fn elements(heap: &Heap<'_>, short_text: &ShortText<'_, '_>, report: &mut ObjectReport, kind: &PyType) {
    items(heap, report.object, kind, |index, item| {
        report.elements.push(short_text.element(index, item));
        (report.elements.len() as u64) < limits::MAX_SHOWN_ELEMENTS
    });
}

/// Visits items in order. `visit` returns whether to continue.
fn items(heap: &Heap<'_>, object: Addr, kind: &PyType, mut visit: impl FnMut(u64, Addr) -> bool) {
    let first = kind.items();
    heap.each_target(object, kind, |link, to| match link {
        Link::Field(offset) => match offset.checked_sub(first) {
            Some(inside) => visit(inside / 8, to),
            None => true,
        },
        Link::NoField(_) => true,
    });
}

pub(super) fn entries(heap: &Heap<'_>, short_text: &ShortText<'_, '_>, dict: Addr, count: u64) -> CollectionDetail {
    let mut found = CollectionDetail { count, entries: Vec::new() };
    heap.objects().each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
        let key = Some(short_text.element(entry.index, entry.key));
        found.entries.push(EntryRow { key, value: short_text.element(entry.index, entry.value) });
        found.entries.len() < limits::MAX_SHOWN_ENTRIES
    });
    found
}

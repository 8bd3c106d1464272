//! Shows one object: a string's text, an array's elements, or the references in other objects.
//!
//! NativeAOT's metadata has no field offsets, so fields have names only by the program's debug file.

use crate::addr::Addr;
use crate::facts::{ElementRow, FieldRow, ObjectReport};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{Heap as _, Link, ObjectNames, StringContent, TypeInfo};
use crate::runtimes::clr_gc::COUNT_AT;
use crate::runtimes::nativeaot::NativeAot;
use crate::runtimes::nativeaot::heap::Heap;

/// Shows the object at `addr`, or the object that contains `addr`.
pub(super) fn object(aot: &NativeAot<'_>, addr: Addr) -> Option<ObjectReport> {
    let heap = aot.objects()?;
    let mut names = ObjectNames::new(heap);
    let target = names.object(addr).map(|_| addr).or_else(|| names.containing(addr))?;
    let (name, size) = names.object(target)?;
    let node = names.node(target)?;
    let info = heap.type_info(node.kind)?;
    let part = heap.ranges().iter().find(|p| p.range.contains(target));
    let mut report = ObjectReport {
        object: target,
        name: Some(name),
        method_table: Some(info.address),
        size: Some(size),
        generation: part.map(|p| p.generation.name),
        heap: part.map(|p| p.heap),
        ..ObjectReport::default()
    };
    if info.string {
        let object = crate::runtimes::api::Object { addr: target, kind: node.kind, size };
        report.value = heap.string_content(&object).map(|content| text(&content, limits::MAX_SHOWN_TEXT));
        return Some(report);
    }
    let mut held = Vec::new();
    names.reader.each(target.get(), |link, value| {
        if let Link::Field(offset) = link {
            held.push((offset, Addr::new(value)));
        }
        held.len() < limits::MAX_SHOWN_ROWS
    });
    match info.elements {
        Some(_) => elements(aot, &mut names, &mut report, &info, &held),
        None => {
            let row = |&(offset, value): &(u64, Addr)| {
                let row = field(&mut names, target, offset, value);
                match heap.field_name(node.kind, offset) {
                    Some(name) => FieldRow { name, ..row },
                    None => row,
                }
            };
            report.fields = held.iter().map(row).collect();
        }
    }
    Some(report)
}

/// Text of the string at `at`. `None` if it is none.
pub(super) fn string_at(heap: &Heap<'_>, at: Addr, limit: usize) -> Option<String> {
    let node = heap.reader().node(at.get())?;
    let string = heap.type_info(node.kind).is_some_and(|info| info.string);
    let object = crate::runtimes::api::Object { addr: at, kind: node.kind, size: node.size };
    Some(text(&heap.string_content(&object).filter(|_| string)?, limit))
}

/// Type of a reference's object, and the text if it is a string.
fn shown(names: &mut ObjectNames<'_>, object: Addr) -> (Option<crate::facts::Name>, Option<String>) {
    let kind = names.object(object).map(|(name, _)| name);
    let text = names.node(object).and_then(|node| {
        let string = names.heap.type_info(node.kind).is_some_and(|info| info.string);
        let object = crate::runtimes::api::Object { addr: object, kind: node.kind, size: node.size };
        let content = names.heap.string_content(&object).filter(|_| string)?;
        Some(text(&content, limits::MAX_SHOWN_STRING))
    });
    (kind, text)
}

fn field(names: &mut ObjectNames<'_>, object: Addr, offset: u64, value: Addr) -> FieldRow {
    let (object_type, text) = shown(names, value);
    FieldRow {
        name: format!("+{offset:#x}"),
        offset,
        address: Some(object.saturating_add(offset)),
        value: text,
        object: Some(value),
        object_type,
        ..FieldRow::default()
    }
}

/// Adds the first elements: targets of references, or values of small numbers.
fn elements(
    aot: &NativeAot<'_>,
    names: &mut ObjectNames<'_>,
    report: &mut ObjectReport,
    info: &TypeInfo,
    held: &[(u64, Addr)],
) {
    let memory = aot.runtime().memory();
    let Some(elements) = info.elements else { return };
    let Ok(length) = memory.u32(report.object.saturating_add(COUNT_AT)).map(u64::from) else { return };
    report.length = Some(length);
    for index in 0..length.min(limits::MAX_SHOWN_ELEMENTS) {
        let offset = elements.start.saturating_add(index.saturating_mul(elements.size));
        let mut row = ElementRow { index, ..ElementRow::default() };
        let mut inner = held.iter().filter(|(at, _)| (offset..offset.saturating_add(elements.size)).contains(at));
        if elements.size == 8 && inner.clone().count() == 1 {
            let object = inner.next().map(|(_, object)| *object);
            row.object = object;
            (row.object_type, row.value) = object.map(|object| shown(names, object)).unwrap_or_default();
        } else {
            row.fields = inner.map(|&(at, value)| field(names, report.object, at, value)).collect();
            if row.fields.is_empty() {
                row.value = number(memory, report.object.saturating_add(offset), elements.size);
            }
        }
        report.elements.push(row);
    }
}

/// Value of an element without references, as an unsigned number.
fn number(memory: &dyn Memory, at: Addr, size: u64) -> Option<String> {
    let mut bytes = [0; 8];
    let used = bytes.get_mut(..usize::try_from(size).ok()?).filter(|used| used.len().is_power_of_two())?;
    memory.read(at, used).ok()?;
    Some(u64::from_le_bytes(bytes).to_string())
}

fn text(content: &StringContent<'_>, limit: usize) -> String {
    let units: Vec<u16> = content.bytes.as_chunks::<2>().0.iter().take(limit).map(|c| u16::from_le_bytes(*c)).collect();
    String::from_utf16_lossy(&units)
}

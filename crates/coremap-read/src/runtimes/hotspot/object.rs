//! One object with its fields, static fields or elements, and the contents of strings.

use crate::addr::Addr;
use crate::facts::{ElementRow, FieldRow, ObjectReport};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{Heap as _, ObjectNames};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::{Classes, JavaField, Klass, KlassShape, external_signature};
use crate::words::FieldStorage;

/// Reports the object at `addr`, or the object that contains `addr`.
pub(super) fn object(vm: &HotSpot<'_>, addr: Addr) -> Option<ObjectReport> {
    let heap = vm.objects()?;
    let mut names = ObjectNames::new(heap);
    let target = names.object(addr).map(|_| addr).or_else(|| names.containing(addr))?;
    let (name, size) = names.object(target)?;
    let classes = vm.classes();
    let klass = classes.class_of(target)?;
    let part = heap.ranges().iter().find(|p| p.range.contains(target));
    let mut report = ObjectReport {
        object: target,
        name: Some(name),
        method_table: Some(klass.address),
        size: Some(size),
        generation: part.map(|p| p.generation.name),
        heap: part.map(|p| p.heap),
        ..ObjectReport::default()
    };
    let mut builder = ReportBuilder { classes, names };
    match klass.shape {
        KlassShape::TypeArray { header, log2 } | KlassShape::ObjectArray { header, log2 } => {
            builder.elements(&mut report, &klass, header, log2);
        }
        _ => {
            report.value = classes.string(target, limits::MAX_SHOWN_TEXT);
            report.fields = builder.fields(&klass, target);
            if let KlassShape::Mirror { .. } = klass.shape {
                builder.mirror(&mut report);
            }
        }
    }
    Some(report)
}

struct ReportBuilder<'g, 'p> {
    classes: &'g Classes<'p>,
    names: ObjectNames<'g>,
}

/// A value in a row: text, or the referenced object.
#[derive(Default)]
struct Value {
    text: Option<String>,
    object: Option<Addr>,
}

impl ReportBuilder<'_, '_> {
    /// Returns the fields of an instance, by offset.
    fn fields(&mut self, klass: &Klass, at: Addr) -> Vec<FieldRow> {
        let mut rows = Vec::new();
        for class in self.classes.with_superclasses(klass.address) {
            for field in self.classes.declared_fields(class).iter().filter(|f| !f.is_static) {
                rows.push(self.field(field, at, FieldStorage::Instance));
            }
            if rows.len() >= limits::MAX_SHOWN_ROWS {
                break;
            }
        }
        rows.sort_by_key(|row| row.offset);
        rows
    }

    /// Adds a mirror's class, and its static fields.
    fn mirror(&mut self, report: &mut ObjectReport) {
        let at = report.object;
        let Some(offset) = self.classes.klass_at() else { return };
        let Ok(class) = self.classes.vm.memory.ptr(at.wrapping_add(offset)) else { return };
        // Mirrors of primitive types have no class.
        let Some(klass) = self.classes.klass(class) else { return };
        report.value = Some(klass.name.clone());
        if !klass.is_array() {
            let declared = self.classes.declared_fields(class);
            let statics = declared.iter().filter(|f| f.is_static).take(limits::MAX_SHOWN_ROWS);
            report.statics = statics.map(|f| self.field(f, at, FieldStorage::Static)).collect();
        }
    }

    fn field(&mut self, field: &JavaField, base: Addr, storage: FieldStorage) -> FieldRow {
        let address = base.wrapping_add(field.offset);
        let value = self.value(&field.descriptor, address);
        let object_type = value.object.and_then(|object| Some(self.names.object(object)?.0));
        FieldRow {
            name: field.name.clone(),
            offset: field.offset,
            kind: Some(external_signature(&field.descriptor)),
            storage,
            address: Some(address),
            value: value.text,
            object: value.object,
            object_type,
            ..FieldRow::default()
        }
    }

    fn elements(&mut self, report: &mut ObjectReport, klass: &Klass, header: u64, log2: u32) {
        let length_at = report.object.wrapping_add(self.classes.encoding.length_at);
        let Ok(length) = self.classes.vm.memory.u32(length_at) else { return };
        report.length = Some(u64::from(length));
        let descriptor = klass.element_descriptor();
        for index in 0..u64::from(length).min(limits::MAX_SHOWN_ELEMENTS) {
            let address = report.object.wrapping_add(header).wrapping_add(index << log2);
            let value = self.value(descriptor, address);
            let object_type = value.object.and_then(|object| Some(self.names.object(object)?.0));
            report.elements.push(ElementRow {
                index,
                value: value.text,
                object: value.object,
                object_type,
                ..ElementRow::default()
            });
        }
    }

    /// Reads the value at `at` by a field's descriptor.
    fn value(&self, descriptor: &str, at: Addr) -> Value {
        let memory = self.classes.vm.memory;
        let mut bytes = [0; 8];
        let mut read = |len: usize| memory.read(at, bytes.get_mut(..len)?).ok().map(|()| bytes);
        let text = match descriptor.as_bytes().first() {
            Some(b'Z') => read(1).map(|b| (b[0] != 0).to_string()),
            Some(b'B') => read(1).map(|b| (b[0] as i8).to_string()),
            Some(b'S') => read(2).map(|b| i16::from_le_bytes([b[0], b[1]]).to_string()),
            Some(b'C') => read(2).map(|b| character(u16::from_le_bytes([b[0], b[1]]))),
            Some(b'I') => read(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]).to_string()),
            Some(b'F') => read(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).to_string()),
            Some(b'J') => read(8).map(|b| i64::from_le_bytes(b).to_string()),
            Some(b'D') => read(8).map(|b| f64::from_le_bytes(b).to_string()),
            Some(b'L' | b'[') => {
                return match self.classes.reference(at) {
                    Ok(object) if object.is_null() => Value { text: Some("null".to_owned()), object: None },
                    Ok(object) => Value { text: self.classes.string(object, SHORT_TEXT), object: Some(object) },
                    Err(_) => Value::default(),
                };
            }
            _ => None,
        };
        Value { text, object: None }
    }
}

/// Maximum number of characters of a string beside a field.
const SHORT_TEXT: usize = 256;

/// Shows a UTF-16 unit as a character, `'x'`, or as its number.
fn character(unit: u16) -> String {
    match char::from_u32(u32::from(unit)).filter(|c| !c.is_control()) {
        Some(c) => format!("'{c}'"),
        None => format!("0x{unit:04x}"),
    }
}

//! Attributes by name: fields of C structs, `__slots__`, values inside the instance, entries of `__dict__`. For types
//! and modules, the entries of their dicts.

use crate::addr::Addr;
use crate::facts::{FieldRow, ObjectReport};
use crate::limits;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::ShortText;
use crate::runtimes::cpython::objects::{PyType, TypeForm};
use crate::words::FieldStorage;

/// The link name of a dict whose pointer precedes the instance.
const DICT: &str = "__dict__";

/// Adds the attributes of `report.object` to `report`.
pub(super) fn fill(heap: &Heap<'_>, short_text: &ShortText<'_, '_>, report: &mut ObjectReport, kind: &PyType) {
    let object = report.object;
    let names = heap.field_names(kind);
    // The object's items follow the fields, and are shown elsewhere.
    let has_items = kind.itemsize == 8
        || matches!(
            kind.form,
            TypeForm::Dict | TypeForm::Set | TypeForm::List | TypeForm::Deque | TypeForm::Generator | TypeForm::Frame
        );
    let end = if has_items { kind.items() } else { u64::MAX };
    let mut rows = Vec::new();
    let mut dicts = Vec::new();
    heap.each_target(object, kind, |link, to| {
        match link {
            Link::NoField(DICT) => dicts.push(to),
            Link::Field(offset) if names.get(&offset).is_some_and(|name| name == DICT) => dicts.push(to),
            Link::Field(offset) if offset >= end => return false,
            Link::Field(offset) => {
                let known = short_text.kind_of(to).is_some();
                if known {
                    let name = names.get(&offset).cloned().unwrap_or_else(|| format!("+{offset:#x}"));
                    // Attribute values stored outside the instance have no address here.
                    let place = (offset < kind.basicsize).then(|| object.wrapping_add(offset));
                    rows.push(short_text.field(name, offset, place, to, FieldStorage::Instance));
                }
            }
            Link::NoField(_) => {}
        }
        rows.len() < limits::MAX_SHOWN_ROWS
    });
    for dict in dicts {
        rows.extend(short_text.entries(dict, object, FieldStorage::Instance));
    }
    rows.truncate(limits::MAX_SHOWN_ROWS);
    report.fields.extend(rows);
}

impl ShortText<'_, '_> {
    /// Entries in the dict of the type at `object`: methods and class attributes.
    pub(super) fn attributes_of_type(&self, object: Addr) -> Vec<FieldRow> {
        let objects = self.heap.objects();
        let dict = objects.ptr_at(object, objects.shape.types.dict).filter(|dict| !dict.is_null());
        dict.map(|dict| self.entries(dict, dict, FieldStorage::Static)).unwrap_or_default()
    }

    pub(super) fn globals(&self, module: Addr) -> Vec<FieldRow> {
        self.module_dict(module).map(|dict| self.entries(dict, dict, FieldStorage::Static)).unwrap_or_default()
    }

    /// Entries of an attribute dict as fields. Offsets count from `base`, if the value's pointer is shortly after it.
    fn entries(&self, dict: Addr, base: Addr, storage: FieldStorage) -> Vec<FieldRow> {
        let objects = self.heap.objects();
        let mut rows = Vec::new();
        objects.each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
            let name = match objects.is_str(entry.key) {
                true => objects.name(entry.key),
                false => self.heap.key_text(entry.key),
            };
            if let Some(name) = name {
                let mut row = self.field(name, 0, Some(entry.place), entry.value, storage);
                row.offset = entry.place.checked_since(base).filter(|offset| *offset <= NEAR).unwrap_or(0);
                rows.push(row);
            }
            rows.len() < limits::MAX_SHOWN_ROWS
        });
        rows
    }

    pub(super) fn field(
        &self,
        name: String,
        offset: u64,
        address: Option<Addr>,
        object: Addr,
        storage: FieldStorage,
    ) -> FieldRow {
        let kind = self.kind_of(object).map(|kind| kind.name.clone());
        FieldRow {
            name,
            offset,
            storage,
            address,
            value: self.field_value(object),
            object: Some(object),
            object_type: kind.map(Into::into),
            ..FieldRow::default()
        }
    }
}

/// Maximum distance from the base for which an offset is shown, in bytes.
const NEAR: u64 = 1 << 12;

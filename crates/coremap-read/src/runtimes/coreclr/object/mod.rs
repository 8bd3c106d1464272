//! Shows one object with its fields, statics and elements.

mod contents;
mod special;
mod values;

use std::collections::HashMap;
use std::ops::Range;

use crate::addr::Addr;
use crate::facts::{DimensionRow, ElementRow, FieldRow, Name, ObjectReport, ThreadValueRow};
use crate::limits;
use crate::runtimes::api::{Heap as _, ObjectNames};
use crate::runtimes::coreclr::heap::{Heap, MethodTableInfo, VALUE_TYPE};
use crate::runtimes::coreclr::{
    CoreClr, FieldDesc, FieldStorage, Scope, Shape, Struct, TypeHandle, TypeSystem, threads,
};
use values::{CoreStruct, is_plain, number};

/// Bytes of an object's ObjHeader, which its size counts.
const HEADER: u64 = 8;

/// Shows the object at `addr`, or the object that contains `addr`.
pub(super) fn object(runtime: &CoreClr<'_>, addr: Addr) -> Option<ObjectReport> {
    let heap = runtime.object_heap()?;
    let types = runtime.types();
    let mut names = ObjectNames::new(heap);
    let target = names.object(addr).map(|_| addr).or_else(|| names.containing(addr))?;
    let (name, size) = names.object(target)?;
    let info = heap.method_table(names.node(target)?.kind)?;
    let part = heap.ranges().iter().find(|p| p.range.contains(target));
    let module = types.module_of(info.address).ok().map(|m| types.module(m).name().into_owned());
    let (structs, core_structs) = Default::default();
    let mut builder = ReportBuilder { runtime, heap, names, structs, left: limits::MAX_SHOWN_ROWS, core_structs };
    let mut report = ObjectReport {
        object: target,
        name: Some(name),
        method_table: Some(info.address),
        size: Some(size),
        generation: part.map(|p| p.generation.name),
        heap: part.map(|p| p.heap),
        module: module.filter(|_| !info.counted()),
        ..ObjectReport::default()
    };
    builder.fill(&mut report, target, &info);
    Some(report)
}

struct ReportBuilder<'g, 'p> {
    runtime: &'g CoreClr<'p>,
    heap: &'g Heap<'p>,
    names: ObjectNames<'g>,
    /// Struct types of fields, by layout and scope. Elements of an array share them.
    structs: HashMap<(Addr, Addr, usize), (Scope, Option<Struct>)>,
    /// Remaining number of rows.
    left: usize,
    core_structs: HashMap<Addr, Option<CoreStruct>>,
}

impl<'g, 'p> ReportBuilder<'g, 'p> {
    fn types(&self) -> &'g TypeSystem<'p> {
        self.runtime.types()
    }

    fn method_table(&mut self, addr: Addr) -> Option<MethodTableInfo> {
        self.heap.method_table(self.names.node(addr)?.kind)
    }

    fn fill(&mut self, report: &mut ObjectReport, at: Addr, info: &MethodTableInfo) {
        let types = self.types();
        if info.free {
            return;
        }
        if info.string {
            report.value = self.text(at, limits::MAX_SHOWN_TEXT);
            return;
        }
        if info.counted() {
            let count = types.view("Array", at).u32("m_NumComponents").unwrap_or(0);
            report.length = Some(u64::from(count));
            report.dimensions = self.dimensions(at, info);
            report.elements = self.elements(at, info, 0..u64::from(count).min(limits::MAX_SHOWN_ELEMENTS));
            for element in &mut report.elements {
                element.indices = indices(element.index, &report.dimensions);
            }
            return;
        }
        if types.is_value_type(info.address) == Ok(true) {
            report.value = self.value(info.address, at.saturating_add(HEADER));
        }
        let fields = types.object_fields(info.address);
        report.fields = fields
            .iter()
            .map(|f| self.row(f, &types.scope_of(f.method_table), at.saturating_add(f.offset), 0))
            .collect();
        let own = types.own_fields(info.address).unwrap_or_default();
        report.statics =
            own.iter().filter(|f| f.storage != FieldStorage::Instance).map(|f| self.static_row(f)).collect();
        self.special(report, at, &fields);
    }

    /// Lengths and lower bounds of a multidimensional array. They are between its element count and its elements
    /// (object.h, ArrayBase).
    fn dimensions(&self, at: Addr, info: &MethodTableInfo) -> Vec<DimensionRow> {
        let types = self.types();
        let Ok(Shape::Array(_, rank)) = types.shape(TypeHandle(info.address)) else { return Vec::new() };
        let rank = rank.min(limits::MAX_ARRAY_RANK);
        let Ok(start) = types.runtime.layout.size("Array").map(|size| at.saturating_add(size)) else {
            return Vec::new();
        };
        let number = |i: u32| types.memory.u32(start.saturating_add(4 * u64::from(i))).ok();
        let of = |i| Some(DimensionRow { length: number(i)?, lower_bound: number(rank + i)?.cast_signed() });
        (0..rank).map_while(of).collect()
    }

    fn elements(&mut self, at: Addr, info: &MethodTableInfo, which: Range<u64>) -> Vec<ElementRow> {
        let types = self.types();
        let size = u64::from(info.component_size);
        let start = at.saturating_add(u64::from(info.base_size).saturating_sub(HEADER));
        let element = types.element_type(info.address);
        let inner = element.and_then(|e| types.loaded_struct(TypeHandle(e)));
        let pointers = matches!(
            types.shape(TypeHandle(info.address)),
            Ok(Shape::SzArray(of) | Shape::Array(of, _)) if matches!(types.shape(of), Ok(Shape::Ptr(_) | Shape::FnPtr(_)))
        );
        which
            .map(|i| {
                let addr = start.saturating_add(i.saturating_mul(size));
                let mut row = ElementRow { index: i, ..ElementRow::default() };
                match &inner {
                    _ if pointers => row.value = number(types.memory, values::cor::PTR, addr),
                    Some(inner) => (row.value, row.fields) = self.inner(inner, addr, 0),
                    None => (row.object, row.object_type, row.value) = self.reference(addr),
                }
                row
            })
            .collect()
    }

    fn row(&mut self, field: &FieldDesc, scope: &Scope, addr: Addr, depth: u32) -> FieldRow {
        let types = self.types();
        let mut row = FieldRow { address: Some(addr), ..self.bare_row(field, scope) };
        match field.element {
            VALUE_TYPE => {
                if let Some(inner) = self.struct_of(field, scope) {
                    (row.value, row.fields) = self.inner(&inner, addr, depth);
                }
            }
            // A field of an enumeration type has the element type of its underlying number.
            e if is_plain(e) => {
                row.value = number(types.memory, e, addr).map(|v| {
                    let kind = self.struct_of(field, scope);
                    kind.and_then(|kind| types.enum_text(kind.method_table, &v)).unwrap_or(v)
                });
            }
            _ => (row.object, row.object_type, row.value) = self.reference(addr),
        }
        row
    }

    fn bare_row(&self, field: &FieldDesc, scope: &Scope) -> FieldRow {
        FieldRow {
            name: self.types().field_name(field),
            offset: field.offset,
            kind: self.types().field_type(field, scope),
            storage: field.storage,
            ..FieldRow::default()
        }
    }

    fn struct_of(&mut self, field: &FieldDesc, scope: &Scope) -> Option<Struct> {
        let types = self.types();
        let key = (field.address, field.method_table, scope.as_ptr() as usize);
        let make = || (scope.clone(), types.field_struct(field, scope));
        if self.structs.len() >= limits::MAX_SHOWN_STRUCTS {
            return make().1;
        }
        self.structs.entry(key).or_insert_with(make).1.clone()
    }

    /// Value and fields of the struct at `addr`.
    fn inner(&mut self, of: &Struct, addr: Addr, depth: u32) -> (Option<String>, Vec<FieldRow>) {
        let value = self.value(of.method_table, addr);
        if depth >= limits::MAX_SHOWN_NESTING || self.left == 0 || self.types().primitive_of(of.method_table).is_some()
        {
            return (value, Vec::new());
        }
        let mut own = self.types().own_fields(of.method_table).unwrap_or_default();
        own.retain(|f| f.storage == FieldStorage::Instance);
        own.sort_by_key(|f| (f.offset, f.token.0));
        if own.is_empty() {
            return (value.or_else(|| Some("{}".into())), Vec::new());
        }
        own.truncate(self.left);
        self.left -= own.len();
        let fields: Vec<FieldRow> =
            own.iter().map(|f| self.row(f, &of.scope, addr.saturating_add(f.offset), depth + 1)).collect();
        let value = value.or_else(|| match self.core_struct(of.method_table)? {
            CoreStruct::Nullable => nullable(&fields),
            CoreStruct::DateTimeOffset => {
                let moment = fields.iter().find(|f| f.name == "_dateTime")?.fields.first()?;
                let ahead = fields.iter().find(|f| f.name == "_offsetMinutes")?;
                values::date_time_offset(moment.value.as_ref()?.parse().ok()?, ahead.value.as_ref()?.parse().ok()?)
            }
            _ => None,
        });
        (value, fields)
    }

    /// Text of a value type that represents one value: numbers, enumerations and well-known structs.
    fn value(&mut self, method_table: Addr, addr: Addr) -> Option<String> {
        let types = self.types();
        if let Some(element) = types.primitive_of(method_table) {
            let text = number(types.memory, element, addr)?;
            return Some(types.enum_text(method_table, &text).unwrap_or(text));
        }
        self.core_struct(method_table)?.text(types.memory, addr)
    }

    fn core_struct(&mut self, method_table: Addr) -> Option<CoreStruct> {
        let types = self.types();
        *self.core_structs.entry(method_table).or_insert_with(|| {
            let module = types.module(types.module_of(method_table).ok()?);
            CoreStruct::of(&types.display_name(method_table)).filter(|_| module.is_core_library())
        })
    }

    fn static_row(&mut self, field: &FieldDesc) -> FieldRow {
        let types = self.types();
        let scope = types.scope_of(field.method_table);
        if field.storage == FieldStorage::ThreadStatic {
            return self.thread_static_row(field, &scope);
        }
        match types.static_address(field) {
            Some(addr) => self.static_value(field, &scope, addr),
            None => self.bare_row(field, &scope),
        }
    }

    fn static_value(&mut self, field: &FieldDesc, scope: &Scope, addr: Addr) -> FieldRow {
        if field.element == VALUE_TYPE && field.storage != FieldStorage::Image {
            // Static value types are boxed.
            let boxed = self.types().memory.ptr(addr).ok().filter(|b| !b.is_null());
            return match boxed {
                Some(boxed) => self.row(field, scope, boxed.saturating_add(HEADER), 0),
                None => self.bare_row(field, scope),
            };
        }
        self.row(field, scope, addr, 0)
    }

    /// A thread static, with a value for each thread that has one.
    fn thread_static_row(&mut self, field: &FieldDesc, scope: &Scope) -> FieldRow {
        let types = self.types();
        let threads = threads(types.process, &types.runtime).map(|(threads, _)| threads).unwrap_or_default();
        let addrs: Vec<_> = threads
            .iter()
            .filter_map(|t| Some((t.os_id, t.managed_id, types.thread_static_address(field, t.address)?)))
            .take(limits::MAX_SHOWN_THREADS)
            .collect();
        let threads = addrs.into_iter().map(|(tid, managed_id, addr)| {
            let row = self.static_value(field, scope, addr);
            ThreadValueRow {
                tid,
                managed_id,
                address: row.address,
                value: row.value,
                object: row.object,
                object_type: row.object_type,
                fields: row.fields,
            }
        });
        let threads = threads.collect();
        FieldRow { threads, ..self.bare_row(field, scope) }
    }

    /// Object, type and text of a reference. The text is a string's characters or a box's value.
    fn reference(&mut self, addr: Addr) -> (Option<Addr>, Option<Name>, Option<String>) {
        let Ok(object) = self.types().memory.ptr(addr) else { return (None, None, None) };
        if object.is_null() {
            return (None, None, Some("null".into()));
        }
        let (name, value) = self.named(object);
        (Some(object), name, value)
    }

    fn named(&mut self, object: Addr) -> (Option<Name>, Option<String>) {
        let name = self.names.object(object).map(|(name, _)| name);
        let info = self.method_table(object);
        let value = info.and_then(|info| {
            if info.string {
                return self.text(object, limits::MAX_SHOWN_STRING);
            }
            let boxed = !info.free && !info.counted() && self.types().is_value_type(info.address) == Ok(true);
            if boxed { self.value(info.address, object.saturating_add(HEADER)) } else { None }
        });
        (name, value)
    }

    fn text(&self, string: Addr, limit: usize) -> Option<String> {
        string_text(self.types(), string, limit)
    }
}

/// Text of a Nullable: `null`, or its value if that has a text.
fn nullable(fields: &[FieldRow]) -> Option<String> {
    let of = |name: &str| fields.iter().find(|f| f.name == name);
    match of("hasValue")?.value.as_deref()? {
        "false" => Some("null".into()),
        _ => of("value")?.value.clone(),
    }
}

/// Index of an element in each dimension. Empty for one-dimensional arrays.
fn indices(index: u64, dimensions: &[DimensionRow]) -> Vec<i64> {
    let mut rest = index;
    let mut out: Vec<i64> = dimensions
        .iter()
        .rev()
        .map(|d| {
            let length = u64::from(d.length).max(1);
            let at = rest % length;
            rest /= length;
            i64::from(d.lower_bound).saturating_add_unsigned(at)
        })
        .collect();
    out.reverse();
    out
}

/// Text of a string, cut at `limit` UTF-16 units.
pub fn string_text(types: &TypeSystem<'_>, string: Addr, limit: usize) -> Option<String> {
    let view = types.view("String", string);
    let length = view.u32("m_StringLength").ok()? as usize;
    let shown = length.min(limit);
    let bytes = types.memory.bytes(view.addr_of("m_FirstChar").ok()?, shown.checked_mul(2)?).ok()?;
    let units = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c));
    let mut text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if shown < length {
        text.push('…');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_the_last_dimension_first() {
        let of = |length, lower_bound| DimensionRow { length, lower_bound };
        assert_eq!(indices(7, &[of(3, 0), of(4, 0)]), [1, 3]);
        assert_eq!(indices(4, &[of(5, 10)]), [14]);
        assert_eq!(indices(3, &[]), [0; 0]);
        assert_eq!(indices(9, &[of(0, -1), of(0, 0)]), [-1, 0]);
    }
}

use crate::addr::Addr;
use crate::analysis::managed::{Names, VALUE_TYPE, handles_of, tell_in_gc, with_heap};
use crate::dotnet::graph::Graph;
use crate::dotnet::heap::{Heap, MethodTableInfo};
use crate::dotnet::{FieldDesc, Heaps, Runtime, Storage, TypeSystem};
use crate::introspect::Findings;
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::report::{ElementRow, FieldRow, Name, ObjectReport};

/// Room of an object's sync block, which its size counts.
const HEADER: u64 = 8;

/// CorElementType (ECMA-335 II.23.1.16).
mod cor {
    pub(super) const BOOLEAN: u8 = 0x02;
    pub(super) const CHAR: u8 = 0x03;
    pub(super) const I1: u8 = 0x04;
    pub(super) const U1: u8 = 0x05;
    pub(super) const I2: u8 = 0x06;
    pub(super) const U2: u8 = 0x07;
    pub(super) const I4: u8 = 0x08;
    pub(super) const U4: u8 = 0x09;
    pub(super) const I8: u8 = 0x0a;
    pub(super) const U8: u8 = 0x0b;
    pub(super) const R4: u8 = 0x0c;
    pub(super) const R8: u8 = 0x0d;
    pub(super) const PTR: u8 = 0x0f;
    pub(super) const BYREF: u8 = 0x10;
    pub(super) const I: u8 = 0x18;
    pub(super) const U: u8 = 0x19;
    pub(super) const FNPTR: u8 = 0x1b;
}

/// Show the object at `addr`, or that `addr` leads into.
pub fn object(process: &Process, found: &Findings, addr: Addr) -> ObjectReport {
    for (runtime, heaps) in with_heap(&found.runtimes) {
        if let Some(report) = one(process, runtime, heaps, addr) {
            return report;
        }
    }
    ObjectReport { object: addr, ..ObjectReport::default() }
}

fn one(process: &Process, runtime: &Runtime, heaps: &Heaps, addr: Addr) -> Option<ObjectReport> {
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    let graph = Graph::new(&types, &heap, &handles_of(process, runtime));
    let mut names = Names::new(&types, &graph);
    let target = names.object(addr).map(|_| addr).or_else(|| names.containing(addr))?;
    let (name, size) = names.object(target)?;
    tell_in_gc(process, runtime, &heap);
    let info = names.reader.node(target.0)?.layout.info;
    let part = heap.parts().iter().find(|p| p.range.contains(target));
    let module = types.module_of(info.address).ok().map(|m| types.module(m).name().into_owned());
    let mut show = Show { names };
    let mut report = ObjectReport {
        object: target,
        name: Some(name),
        method_table: Some(info.address),
        size: Some(size),
        generation: part.map(|p| p.generation.name()),
        heap: part.map(|p| p.heap),
        module: module.filter(|_| !info.counted()),
        ..ObjectReport::default()
    };
    show.fill(&mut report, target, &info);
    Some(report)
}

/// Makes rows of values.
struct Show<'g, 'h, 'p> {
    names: Names<'g, 'h, 'p>,
}

impl Show<'_, '_, '_> {
    fn fill(&mut self, report: &mut ObjectReport, at: Addr, info: &MethodTableInfo) {
        let types = self.names.types;
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
            report.elements = self.elements(at, info, u64::from(count).min(limits::MAX_SHOWN_ELEMENTS));
            return;
        }
        let boxed = types.is_value_type(info.address) == Ok(true);
        if boxed {
            let start = at.saturating_add(HEADER);
            report.value = types.primitive_of(info.address).and_then(|e| self.number(e, start));
        }
        let fields = types.object_fields(info.address);
        report.fields = fields.iter().map(|f| self.row(f, at.saturating_add(f.offset), 0)).collect();
        let own = types.own_fields(info.address).unwrap_or_default();
        report.statics = own.iter().filter(|f| f.storage != Storage::Instance).map(|f| self.static_row(f)).collect();
    }

    fn elements(&mut self, at: Addr, info: &MethodTableInfo, count: u64) -> Vec<ElementRow> {
        let types = self.names.types;
        let size = u64::from(info.component_size);
        let start = at.saturating_add(u64::from(info.base_size).saturating_sub(HEADER));
        let element = types.element_type(info.address);
        let value_type = element.filter(|&e| types.is_value_type(e) == Ok(true));
        let primitive = value_type.and_then(|e| types.primitive_of(e));
        (0..count)
            .map(|i| {
                let place = start.saturating_add(i.saturating_mul(size));
                let mut row = ElementRow { index: i, ..ElementRow::default() };
                match (value_type, primitive) {
                    (Some(_), Some(primitive)) => row.value = self.number(primitive, place),
                    (Some(inner), None) => row.fields = self.inner(inner, place, 0),
                    (None, _) => (row.object, row.object_type, row.value) = self.reference(place),
                }
                row
            })
            .collect()
    }

    fn row(&mut self, field: &FieldDesc, place: Addr, depth: u32) -> FieldRow {
        let types = self.names.types;
        let mut row = FieldRow {
            name: types.field_name(field),
            offset: field.offset,
            kind: types.field_type(field),
            storage: storage(field.storage),
            address: Some(place),
            ..FieldRow::default()
        };
        match field.element {
            VALUE_TYPE => match types.value_type_of(field) {
                Some(inner) => row.fields = self.inner(inner, place, depth),
                None => row.value = None,
            },
            // A field of an enumeration has the element type of its numbers.
            e if is_plain(e) => {
                row.value = self
                    .number(e, place)
                    .map(|v| types.value_type_of(field).and_then(|kind| types.enum_text(kind, &v)).unwrap_or(v));
            }
            _ => (row.object, row.object_type, row.value) = self.reference(place),
        }
        row
    }

    /// Fields of a value type at `place`.
    fn inner(&mut self, method_table: Addr, place: Addr, depth: u32) -> Vec<FieldRow> {
        if depth >= limits::MAX_SHOWN_NESTING {
            return Vec::new();
        }
        let mut own = self.names.types.own_fields(method_table).unwrap_or_default();
        own.sort_by_key(|f| (f.offset, f.token.0));
        own.iter()
            .filter(|f| f.storage == Storage::Instance)
            .map(|f| self.row(f, place.saturating_add(f.offset), depth + 1))
            .collect()
    }

    fn static_row(&mut self, field: &FieldDesc) -> FieldRow {
        let types = self.names.types;
        let Some(place) = types.static_address(field) else {
            return FieldRow {
                name: types.field_name(field),
                offset: field.offset,
                kind: types.field_type(field),
                storage: storage(field.storage),
                ..FieldRow::default()
            };
        };
        if field.element == VALUE_TYPE && field.storage == Storage::Static {
            // Static value types live in boxes.
            let boxed = types.memory.ptr(place).unwrap_or(Addr(0));
            return self.row(field, boxed.saturating_add(HEADER), 0);
        }
        self.row(field, place, 0)
    }

    /// A reference: the object, its type, and its text if it is a string.
    fn reference(&mut self, place: Addr) -> (Option<Addr>, Option<Name>, Option<String>) {
        let Ok(object) = self.names.types.memory.ptr(place) else { return (None, None, None) };
        if object.0 == 0 {
            return (None, None, Some("null".into()));
        }
        let name = self.names.object(object).map(|(name, _)| name);
        let string = self.names.reader.node(object.0).is_some_and(|n| n.layout.info.string);
        let text = if string { self.text(object, limits::MAX_SHOWN_STRING) } else { None };
        (Some(object), name, text)
    }

    /// The text of a string, or its beginning.
    fn text(&self, string: Addr, most: usize) -> Option<String> {
        string_text(self.names.types, string, most)
    }

    fn number(&self, element: u8, place: Addr) -> Option<String> {
        number(self.names.types.memory, element, place)
    }
}

/// The text of a string, at most `most` units of it.
pub(super) fn string_text(types: &TypeSystem<'_>, string: Addr, most: usize) -> Option<String> {
    let view = types.view("String", string);
    let length = view.u32("m_StringLength").ok()? as usize;
    let shown = length.min(most);
    let bytes = types.memory.bytes(view.addr_of("m_FirstChar").ok()?, shown.checked_mul(2)?).ok()?;
    let units = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c));
    let mut text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if shown < length {
        text.push('…');
    }
    Some(text)
}

fn is_plain(element: u8) -> bool {
    use cor as e;
    matches!(element, e::BOOLEAN..=e::R8 | e::PTR | e::BYREF | e::I | e::U | e::FNPTR)
}

fn storage(storage: Storage) -> &'static str {
    match storage {
        Storage::Instance => "instance",
        Storage::Static => "static",
        Storage::ThreadStatic => "thread static",
        Storage::Rva => "static in the image",
    }
}

/// A number, character or pointer as text.
fn number(memory: &dyn Memory, element: u8, place: Addr) -> Option<String> {
    use cor as e;
    fn le<const N: usize>(memory: &dyn Memory, place: Addr) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        memory.read(place, &mut bytes).ok().map(|()| bytes)
    }
    Some(match element {
        e::BOOLEAN => (le::<1>(memory, place)? != [0]).to_string(),
        e::CHAR => {
            let unit = u16::from_le_bytes(le(memory, place)?);
            char::from_u32(u32::from(unit))
                .filter(|c| !c.is_control())
                .map_or_else(|| format!("{unit:#x}"), |c| format!("'{c}'"))
        }
        e::I1 => i8::from_le_bytes(le(memory, place)?).to_string(),
        e::U1 => u8::from_le_bytes(le(memory, place)?).to_string(),
        e::I2 => i16::from_le_bytes(le(memory, place)?).to_string(),
        e::U2 => u16::from_le_bytes(le(memory, place)?).to_string(),
        e::I4 => i32::from_le_bytes(le(memory, place)?).to_string(),
        e::U4 => u32::from_le_bytes(le(memory, place)?).to_string(),
        e::I8 => i64::from_le_bytes(le(memory, place)?).to_string(),
        e::U8 => u64::from_le_bytes(le(memory, place)?).to_string(),
        e::R4 => f32::from_le_bytes(le(memory, place)?).to_string(),
        e::R8 => f64::from_le_bytes(le(memory, place)?).to_string(),
        _ => format!("{:#x}", u64::from_le_bytes(le(memory, place)?)),
    })
}

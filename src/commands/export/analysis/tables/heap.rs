//! Tables of managed heaps: types, objects, references, roots and strings. Objects and references are written during
//! the walk.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::heap_notes::{warn_in_gc, warn_losses};
use crate::commands::export::analysis::tables::{Tables, number};
use crate::export::ExportError;
use crate::export::tables::{Cell, Column, Form, Table};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::runtimes::api::{
    FREE, Heap, HeapRange, Link, ManagedRuntime, Object, ObjectNames, Roots, RuntimeId, Selection, StringContent,
    StringUnits, TypeIndex, UnwalkedRanges, stat,
};
use crate::session::Session;

const TYPES: &[Column] = &[
    ("core", Form::Text),
    ("runtime", Form::Text),
    ("type_id", Form::Rising),
    ("address", Form::Number),
    ("type", Form::Text),
    ("module", Form::Text),
    ("count", Form::Number),
    ("size", Form::Number),
];
const OBJECTS: &[Column] = &[
    ("core", Form::Text),
    ("runtime", Form::Text),
    ("address", Form::Rising),
    ("type_id", Form::Number),
    ("size", Form::Number),
    ("generation", Form::Text),
    ("heap", Form::Number),
];
const REFERENCES: &[Column] = &[
    ("core", Form::Text),
    ("runtime", Form::Text),
    ("source", Form::Rising),
    ("type_id", Form::Number),
    ("target", Form::Number),
    ("kind", Form::Text),
    ("field", Form::Text),
];
const ROOTS: &[Column] = &[
    ("core", Form::Text),
    ("runtime", Form::Text),
    ("kind", Form::Text),
    ("address", Form::Number),
    ("object", Form::Number),
    ("tid", Form::Number),
];
const STRINGS: &[Column] = &[
    ("core", Form::Text),
    ("runtime", Form::Text),
    ("address", Form::Rising),
    ("type_id", Form::Number),
    ("size", Form::Number),
    ("length", Form::Number),
    ("hash", Form::Number),
    ("text", Form::Text),
];

/// A heap, and the values that all of its rows begin with.
struct HeapRows<'s> {
    core: String,
    name: String,
    runtime: &'s dyn ManagedRuntime,
    heap: &'s dyn Heap,
}

impl HeapRows<'_> {
    fn begins(&self) -> [Cell<'_>; 2] {
        [self.core.as_str().into(), self.name.as_str().into()]
    }

    /// Visits every object, with its part of the heap.
    fn each(
        &self,
        losses: &mut UnwalkedRanges,
        progress: &Progress,
        visit: &mut dyn FnMut(&HeapRange, &Object) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        progress.start(self.heap.ranges().iter().map(|part| part.range.len()).fold(0, u64::saturating_add));
        let mut walker = self.heap.walker();
        let mut failed = Ok(());
        for part in self.heap.ranges() {
            walker.walk(part, losses, &mut |object| {
                if failed.is_ok() {
                    failed = visit(part, object);
                }
            });
            progress.add(part.range.len());
            if failed.is_err() {
                break;
            }
        }
        failed
    }
}

/// Writes the tables of all heaps. `show_data` includes the contents of strings.
pub(super) fn write(
    session: &Session<'_>,
    show_data: bool,
    tables: &mut Tables<'_>,
    progress: &Progress,
) -> Result<(), ExportError> {
    let process = session.process;
    process.target().expect_scan();
    let _phase = process.enter(Phase::References);
    let core = &tables.core.clone();
    let runtimes = session.runtimes_by_id().into_iter();
    let heaps = runtimes.filter_map(|(id, runtime)| {
        let heap = runtime.heap()?;
        Some((id, HeapRows { core: core.clone(), name: runtime.row().name.to_string(), runtime, heap }))
    });
    let heaps: Vec<(RuntimeId, HeapRows<'_>)> = heaps.collect();
    tables.write("objects", OBJECTS, &mut |table| {
        heaps.iter().try_for_each(|(_, of)| {
            warn_in_gc(process, of.runtime, of.heap);
            let mut losses = UnwalkedRanges::default();
            of.each(&mut losses, progress, &mut |part, object| objects_row(table, of, part, object))?;
            warn_losses(process, of.runtime, of.heap, &losses);
            Ok(())
        })
    })?;
    tables.write("references", REFERENCES, &mut |table| {
        heaps.iter().try_for_each(|(_, of)| references(table, of, progress))
    })?;
    tables.write("strings", STRINGS, &mut |table| {
        heaps.iter().try_for_each(|(_, of)| strings(table, of, show_data, progress))
    })?;
    tables.write("types", TYPES, &mut |table| heaps.iter().try_for_each(|(_, of)| types(table, of, progress)))?;
    let roots: Vec<(&HeapRows<'_>, Roots)> = heaps.iter().map(|(id, of)| (of, session.roots(*id))).collect();
    tables.write("roots", ROOTS, &mut |table| {
        for (of, root) in roots.iter().flat_map(|(of, roots)| roots.all.iter().map(move |root| (of, root))) {
            let [core, name] = of.begins();
            let tid = root.thread.map(u64::from).into();
            table.row(&[core, name, root.kind.name().into(), number(root.address), number(root.object), tid])?;
        }
        Ok(())
    })
}

fn objects_row(table: &mut Table<'_>, of: &HeapRows<'_>, part: &HeapRange, object: &Object) -> Result<(), ExportError> {
    let [core, name] = of.begins();
    table.row(&[
        core,
        name,
        number(object.addr),
        u64::from(object.kind.0).into(),
        object.size.into(),
        part.generation.name.into(),
        u64::from(part.heap).into(),
    ])
}

fn types(table: &mut Table<'_>, of: &HeapRows<'_>, progress: &Progress) -> Result<(), ExportError> {
    let mut all = stat(of.heap, &Selection::default(), progress).types;
    all.sort_by_key(|row| row.kind);
    all.iter().try_for_each(|row| {
        let [core, name] = of.begins();
        table.row(&[
            core,
            name,
            u64::from(row.kind.0).into(),
            number(row.info.address),
            of.heap.type_name(row.kind).as_str().into(),
            of.heap.type_module(row.kind).as_deref().into(),
            row.total.count.into(),
            row.total.size.into(),
        ])
    })
}

/// Cached names of the fields through which objects refer to others.
struct Fields<'s> {
    heap: &'s dyn Heap,
    names: ObjectNames<'s>,
    known: HashMap<(TypeIndex, u64), String>,
}

impl Fields<'_> {
    /// Name of the field at `offset` of the object at `addr`. For an array: `[]`, followed by the field of its
    /// elements.
    fn name(&mut self, addr: Addr, kind: TypeIndex, offset: u64) -> &str {
        let info = self.heap.type_info(kind);
        let within = info.and_then(|info| info.elements).and_then(|elements| {
            let at = offset.checked_sub(elements.start)?;
            Some(at % elements.size.max(1))
        });
        let (heap, names) = (self.heap, &mut self.names);
        self.known.entry((kind, within.unwrap_or(offset))).or_insert_with(|| match within {
            Some(rest) => {
                heap.element_field_name(kind, rest).map_or_else(|| "[]".to_owned(), |name| format!("[].{name}"))
            }
            // Static variables of a mirror and keys of a dict are named by the object, not by its type.
            None => heap
                .field_name(kind, offset)
                .or_else(|| names.link(addr, Link::Field(offset)).map(|name| name.to_string()))
                .unwrap_or_else(|| format!("+{offset:#x}")),
        })
    }
}

fn references(table: &mut Table<'_>, of: &HeapRows<'_>, progress: &Progress) -> Result<(), ExportError> {
    let mut reader = of.heap.reader();
    let mut fields = Fields { heap: of.heap, names: ObjectNames::new(of.heap), known: HashMap::new() };
    of.each(&mut UnwalkedRanges::default(), progress, &mut |_, object| {
        if object.kind == FREE {
            return Ok(());
        }
        let mut failed = Ok(());
        reader.each(object.addr.get(), |link, value| {
            if value == 0 {
                return true;
            }
            let [core, name] = of.begins();
            let (kind, field) = match link {
                Link::Field(offset) => ("field", fields.name(object.addr, object.kind, offset)),
                Link::NoField(how) => ("beside", how),
            };
            let of = u64::from(object.kind.0);
            failed = table.row(&[core, name, number(object.addr), of.into(), value.into(), kind.into(), field.into()]);
            failed.is_ok()
        });
        failed
    })
}

fn strings(table: &mut Table<'_>, of: &HeapRows<'_>, show_data: bool, progress: &Progress) -> Result<(), ExportError> {
    let Some(kind) = of.heap.string_type() else { return Ok(()) };
    of.each(&mut UnwalkedRanges::default(), progress, &mut |_, object| {
        if object.kind != kind {
            return Ok(());
        }
        let content = of.heap.string_content(object);
        let [core, name] = of.begins();
        let text = content.as_ref().filter(|_| show_data).map(text);
        let (length, hash) = content.map(|of| (u64::from(of.length), hash(of.bytes))).unzip();
        let of = u64::from(object.kind.0);
        table.row(&[
            core,
            name,
            number(object.addr),
            of.into(),
            object.size.into(),
            length.into(),
            hash.into(),
            text.as_deref().into(),
        ])
    })
}

fn text(content: &StringContent<'_>) -> String {
    match content.units {
        StringUnits::Latin1 => content.bytes.iter().map(|&byte| char::from(byte)).collect(),
        StringUnits::Utf16 => {
            let units = content.bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
            char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
    }
}

/// FNV-1a, 64 bits, over the bytes of the text's units (RFC 9923). Equal texts of one runtime have equal hashes. The
/// hash does not hide a short text, which can be guessed.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_fnv() {
        // Test vectors of the algorithm's authors.
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}

//! Writes objects as sub-records: one page at a time, and large arrays separately, chunk by chunk.

use std::borrow::Cow;
use std::io::Write;

use crate::addr::{Addr, WORD};
use crate::export::ExportError;
use crate::export::hprof::Dump;
use crate::export::hprof::records::{head, put_object, sub, tag};
use crate::memory::Memory;
use crate::runtimes::api::fields::{CHARACTERS_ID_OFFSET, Class, ObjectLayout, ValueType};
use crate::runtimes::api::{Link, ObjectReader, Tally};
use crate::sums::{SaturatingAdd, SaturatingSum};

/// Maximum size of one piece of a page in bytes, about. Further objects go into the next piece.
const MAX_BATCH: usize = 32 << 20;

/// Maximum size in bytes of an array within a piece. Larger ones are written separately.
const MAX_INLINE_ARRAY: u64 = 1 << 20;

/// Bytes of a large array that are read at once, a multiple of every element size.
const CHUNK: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) instances: Tally,
    pub(super) mirrors: Tally,
    pub(super) object_arrays: Tally,
    pub(super) value_arrays: Tally,
    pub(super) texts: u64,
    pub(super) references: u64,
    pub(super) cut: u64,
    pub(super) lost: u64,
    pub(super) unknown: u64,
}

impl Sums {
    pub(super) fn plus(self, other: Sums) -> Sums {
        Sums {
            instances: self.instances.plus(other.instances),
            mirrors: self.mirrors.plus(other.mirrors),
            object_arrays: self.object_arrays.plus(other.object_arrays),
            value_arrays: self.value_arrays.plus(other.value_arrays),
            texts: self.texts + other.texts,
            references: self.references + other.references,
            cut: self.cut + other.cut,
            lost: self.lost + other.lost,
            unknown: self.unknown + other.unknown,
        }
    }

    /// Total size of these objects in memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let all = [self.instances, self.mirrors, self.object_arrays, self.value_arrays];
        all.iter().map(|tally| tally.size).fold(0, u64::saturating_add)
    }
}

/// An array to write.
#[derive(Clone, Copy)]
pub(super) struct Array {
    /// Address of the object.
    at: Addr,
    /// Id of the array in the file.
    id: u64,
    /// Index of its class.
    class: u32,
    /// Number of elements to write.
    length: u64,
    elements: Elements,
}

/// Location and type of an array's elements.
#[derive(Clone, Copy)]
enum Elements {
    /// Consecutive values from this address on.
    Values(Addr, ValueType),
    /// References within structs, which start at this address.
    StructRefs(Addr),
}

impl Elements {
    fn kind(self) -> ValueType {
        match self {
            Elements::Values(_, kind) => kind,
            Elements::StructRefs(_) => ValueType::Object,
        }
    }
}

/// Sub-records of a part of a page.
#[derive(Default)]
pub(super) struct RecordBatch {
    pub(super) bytes: Vec<u8>,
    /// Arrays to be written separately.
    pub(super) large: Vec<Array>,
    /// Number of the page's objects handled so far. `None` if that is all.
    pub(super) next: Option<usize>,
    pub(super) sums: Sums,
}

/// Writes the objects of a page, without the first `skip`.
pub(super) fn of_page(dump: &Dump<'_>, page: usize, skip: usize) -> Result<RecordBatch, ExportError> {
    let mut piece = RecordBatch::default();
    let mut reader = dump.source.heap.reader();
    let (_, addrs) = dump.objects.page(page);
    for (place, at) in addrs.enumerate().skip(skip) {
        if piece.bytes.len() > MAX_BATCH {
            piece.next = Some(place);
            break;
        }
        let Some(node) = reader.node(at.get()) else {
            piece.sums.unknown += 1;
            continue;
        };
        let Some((place, class)) = dump.class(node.kind.0) else {
            piece.sums.unknown += 1;
            continue;
        };
        let one = Tally { count: 1, size: node.counted_size };
        let sums = &mut piece.sums;
        if dump.mirrors.contains(&at.get()) {
            // Written as a class.
            sums.mirrors = sums.mirrors.plus(one);
            continue;
        }
        let array = match class.layout {
            ObjectLayout::Instance(ref fields) => {
                sums.instances = sums.instances.plus(one);
                dump.instance(&mut piece, at, class, fields);
                continue;
            }
            ObjectLayout::Text(length_at, first) => {
                sums.instances = sums.instances.plus(one);
                sums.texts += 1;
                put_object(&mut piece.bytes, sub::INSTANCE, at.get());
                piece.bytes.extend(class.id.to_be_bytes());
                let characters = at.saturating_add(CHARACTERS_ID_OFFSET).get();
                piece.bytes.extend((ValueType::Object.size() as u32).to_be_bytes());
                piece.bytes.extend(characters.to_be_bytes());
                let elements = Elements::Values(at.saturating_add(first), ValueType::Char);
                Array { at, id: characters, class: place, length: dump.length(at, length_at), elements }
            }
            ObjectLayout::Objects(header) => {
                sums.object_arrays = sums.object_arrays.plus(one);
                let elements = Elements::Values(at.saturating_add(header), ValueType::Object);
                Array { at, id: at.get(), class: place, length: dump.length(at, dump.source.length_at), elements }
            }
            ObjectLayout::Values(header, kind) => {
                sums.value_arrays = sums.value_arrays.plus(one);
                let elements = Elements::Values(at.saturating_add(header), kind);
                Array { at, id: at.get(), class: place, length: dump.length(at, dump.source.length_at), elements }
            }
            ObjectLayout::Structs(header) => {
                sums.object_arrays = sums.object_arrays.plus(one);
                // Bytes outside of the elements are the header and one more word. Tools add them themselves.
                let length = (node.counted_size.saturating_sub(header + WORD)).div_ceil(WORD);
                Array {
                    at,
                    id: at.get(),
                    class: place,
                    length,
                    elements: Elements::StructRefs(at.saturating_add(header)),
                }
            }
        };
        dump.array(&mut piece, array, &mut *reader)?;
    }
    Ok(piece)
}

impl Dump<'_> {
    fn class(&self, kind: u32) -> Option<(u32, &Class)> {
        let place = *self.by_kind.get(kind as usize)?;
        Some((place?, self.classes.all.get(place? as usize)?))
    }

    fn length(&self, at: Addr, length_at: u64) -> u64 {
        u64::from(self.source.memory.u32(at.saturating_add(length_at)).unwrap_or(0))
    }

    /// Reads bytes at an address. Returns zeros if the core lacks them.
    fn bytes(&self, at: Addr, len: u64, lost: &mut u64) -> Cow<'_, [u8]> {
        if let Some(bytes) = self.source.memory.borrow(at, len as usize) {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(self.source.memory.bytes(at, len as usize).unwrap_or_else(|_| {
            *lost += 1;
            vec![0; len as usize]
        }))
    }

    fn instance(&self, piece: &mut RecordBatch, at: Addr, class: &Class, fields: &[(u64, ValueType)]) {
        let end = fields.iter().map(|(offset, kind)| offset + self.width(*kind)).max().unwrap_or(0);
        let bytes = self.bytes(at, end, &mut piece.sums.lost);
        put_object(&mut piece.bytes, sub::INSTANCE, at.get());
        piece.bytes.extend(class.id.to_be_bytes());
        let len: u64 = fields.iter().map(|(_, kind)| kind.size()).saturating_sum();
        piece.bytes.extend((len as u32).to_be_bytes());
        for &(offset, kind) in fields {
            let width = self.width(kind);
            let value = bytes.get(offset as usize..(offset + width) as usize).unwrap_or_default();
            self.value(&mut piece.bytes, kind, value, &mut piece.sums.references);
        }
    }

    /// Writes an array, or records it if it is large. Leaves out elements at its end that are not in the core, because
    /// any length may be claimed.
    fn array(&self, piece: &mut RecordBatch, array: Array, reader: &mut dyn ObjectReader) -> Result<(), ExportError> {
        let (start, width) = match array.elements {
            Elements::Values(start, kind) => (start, self.width(kind)),
            Elements::StructRefs(start) => (start, WORD),
        };
        let want = array.length * width;
        let have = self.source.memory.readable(start, want);
        let array = Array { length: have / width, ..array };
        piece.sums.lost += u64::from(have < want);
        if array.length * array.elements.kind().size() > MAX_INLINE_ARRAY {
            piece.large.push(array);
            return Ok(());
        }
        self.array_head(&mut piece.bytes, &array);
        let (bytes, sums) = (&mut piece.bytes, &mut piece.sums);
        match array.elements {
            Elements::Values(_, kind) => {
                let values = self.bytes(start, have, &mut sums.lost);
                self.elements(bytes, kind, &values, &mut sums.references);
                Ok(())
            }
            Elements::StructRefs(_) => write_struct_refs(&array, reader, bytes, sums),
        }
    }

    /// Writes consecutive values of one type.
    fn elements(&self, out: &mut Vec<u8>, kind: ValueType, bytes: &[u8], references: &mut u64) {
        if kind.size() == 1 {
            out.extend(bytes);
            return;
        }
        for value in bytes.chunks_exact(self.width(kind) as usize) {
            self.value(out, kind, value, references);
        }
    }

    /// Size of a value in memory, in bytes.
    fn width(&self, kind: ValueType) -> u64 {
        if kind == ValueType::Object { self.source.reference } else { kind.size() }
    }

    /// Writes a value, whose bytes in memory are little-endian.
    fn value(&self, out: &mut Vec<u8>, kind: ValueType, bytes: &[u8], references: &mut u64) {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let mut value = u64::from_le_bytes(word);
        if kind == ValueType::Object {
            value = (self.source.decode)(value);
            *references += u64::from(value != 0);
        }
        let bytes = value.to_be_bytes();
        out.extend(bytes.iter().skip(bytes.len() - kind.size() as usize));
    }

    /// Writes the header of an array.
    fn array_head(&self, out: &mut Vec<u8>, array: &Array) {
        let kind = array.elements.kind();
        let is_objects = kind == ValueType::Object;
        put_object(out, if is_objects { sub::OBJECT_ARRAY } else { sub::VALUE_ARRAY }, array.id);
        out.extend((array.length as u32).to_be_bytes());
        if is_objects {
            let class = self.classes.all.get(array.class as usize);
            out.extend(class.map_or(0, |class| class.id).to_be_bytes());
        } else {
            out.push(kind as u8);
        }
    }
}

/// Writes an array as a segment of its own.
pub(super) fn write_large(
    dump: &Dump<'_>,
    array: &Array,
    out: &mut dyn Write,
    sums: &mut Sums,
) -> Result<(), ExportError> {
    let kind = array.elements.kind();
    let mut piece = Vec::new();
    dump.array_head(&mut piece, array);
    let room = u64::from(u32::MAX) - piece.len() as u64;
    let length = array.length.min(room / kind.size());
    sums.cut.add_saturating(array.length - length);
    let array = &Array { length, ..*array };
    piece.clear();
    dump.array_head(&mut piece, array);
    head(out, tag::SEGMENT, piece.len() as u64 + length * kind.size())?;
    let Elements::Values(mut at, _) = array.elements else {
        out.write_all(&piece)?;
        return write_struct_refs(array, &mut *dump.source.heap.reader(), out, sums);
    };
    let mut left = length * dump.width(kind);
    while left > 0 {
        let bytes = dump.bytes(at, left.min(CHUNK), &mut sums.lost);
        dump.elements(&mut piece, kind, &bytes, &mut sums.references);
        out.write_all(&piece)?;
        piece.clear();
        at = at.saturating_add(bytes.len() as u64);
        left -= bytes.len() as u64;
    }
    Ok(())
}

/// Writes one word for each word of the structs: the reference if the object has one there, else zero.
fn write_struct_refs(
    array: &Array,
    reader: &mut dyn ObjectReader,
    out: &mut dyn Write,
    sums: &mut Sums,
) -> Result<(), ExportError> {
    let Elements::StructRefs(start) = array.elements else { return Ok(()) };
    let first = start.since(array.at);
    let (mut next, mut failed) = (0, Ok(()));
    reader.each(array.at.get(), |link, value| {
        let Link::Field(offset) = link else { return true };
        let slot = offset.wrapping_sub(first) / WORD;
        if (next..array.length).contains(&slot) {
            failed = zeros(out, slot - next).and_then(|()| out.write_all(&value.to_be_bytes()));
            next = slot + 1;
            sums.references += 1;
        }
        failed.is_ok()
    });
    failed?;
    Ok(zeros(out, array.length - next)?)
}

fn zeros(out: &mut dyn Write, mut words: u64) -> std::io::Result<()> {
    const NONE: [u8; 1 << 12] = [0; 1 << 12];
    while words > 0 {
        let some = words.min(NONE.len() as u64 / WORD);
        out.write_all(NONE.get(..(some * WORD) as usize).unwrap_or_default())?;
        words -= some;
    }
    Ok(())
}

//! Objects as sub-records: a page of them at a time, and large arrays apart, piece by piece.

use std::borrow::Cow;
use std::io::Write;

use crate::addr::Addr;
use crate::export::ExportError;
use crate::export::hprof::records::{head, put_object, sub, tag};
use crate::export::hprof::{Class, Dump, Form, Type};
use crate::managed::Tally;
use crate::memory::Memory;

/// Bytes of a page in one piece: what has no room goes into the next.
const PIECE: usize = 32 << 20;

/// Arrays of more bytes are written apart.
const LARGE: u64 = 1 << 20;

/// Bytes of a large array that are read at once, a multiple of what an element has.
const CHUNK: u64 = 1 << 20;

/// Sums of what was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) instances: Tally,
    pub(super) mirrors: Tally,
    pub(super) object_arrays: Tally,
    pub(super) value_arrays: Tally,
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
            references: self.references + other.references,
            cut: self.cut + other.cut,
            lost: self.lost + other.lost,
            unknown: self.unknown + other.unknown,
        }
    }

    /// Bytes of all these objects in memory.
    pub(super) fn bytes(&self) -> u64 {
        let all = [self.instances, self.mirrors, self.object_arrays, self.value_arrays];
        all.iter().map(|tally| tally.size).fold(0, u64::saturating_add)
    }
}

/// An array that is written apart.
pub(super) struct LargeArray {
    at: Addr,
    /// Place of its class.
    class: u32,
    length: u64,
}

/// Sub-records of a part of a page.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) large: Vec<LargeArray>,
    /// How many objects of the page were taken, where there are more.
    pub(super) next: Option<usize>,
    pub(super) sums: Sums,
}

/// The objects of a page, but for the first `skip`.
pub(super) fn of_page(dump: &Dump<'_>, page: usize, skip: usize) -> Piece {
    let mut piece = Piece::default();
    let mut reader = dump.source.heap.reader();
    let (_, addrs) = dump.objects.page(page);
    for (place, at) in addrs.enumerate().skip(skip) {
        if piece.bytes.len() > PIECE {
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
        match &class.form {
            // Classes stand for these.
            Form::Instance(_) if dump.mirrors.contains(&at.get()) => {
                piece.sums.mirrors = piece.sums.mirrors.plus(one);
            }
            Form::Instance(fields) => {
                piece.sums.instances = piece.sums.instances.plus(one);
                dump.instance(&mut piece, at, class, fields);
            }
            &(Form::Objects(_) | Form::Values(..)) => dump.array(&mut piece, at, place, one),
        }
    }
    piece
}

impl Dump<'_> {
    fn class(&self, kind: u32) -> Option<(u32, &Class)> {
        let place = *self.by_kind.get(kind as usize)?;
        Some((place?, self.classes.get(place? as usize)?))
    }

    /// Bytes from there on; zeros where the core lacks them.
    fn bytes(&self, at: Addr, len: u64, lost: &mut u64) -> Cow<'_, [u8]> {
        if let Some(bytes) = self.source.memory.borrow(at, len as usize) {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(self.source.memory.bytes(at, len as usize).unwrap_or_else(|_| {
            *lost += 1;
            vec![0; len as usize]
        }))
    }

    fn instance(&self, piece: &mut Piece, at: Addr, class: &Class, fields: &[(u64, Type)]) {
        let end = fields.iter().map(|(offset, kind)| offset + self.width(*kind)).max().unwrap_or(0);
        let bytes = self.bytes(at, end, &mut piece.sums.lost);
        put_object(&mut piece.bytes, sub::INSTANCE, at.get());
        piece.bytes.extend(class.id.to_be_bytes());
        let len: u64 = fields.iter().map(|(_, kind)| kind.size()).sum();
        piece.bytes.extend((len as u32).to_be_bytes());
        for &(offset, kind) in fields {
            let width = self.width(kind);
            let value = bytes.get(offset as usize..(offset + width) as usize).unwrap_or_default();
            self.value(&mut piece.bytes, kind, value, &mut piece.sums.references);
        }
    }

    fn array(&self, piece: &mut Piece, at: Addr, place: u32, one: Tally) {
        let Some(class) = self.classes.get(place as usize) else { return };
        let (header, kind) = class.elements();
        let length_at = at.saturating_add(self.source.length_at);
        let length = u64::from(self.source.memory.u32(length_at).unwrap_or(0));
        let sum = if kind == Type::Object { &mut piece.sums.object_arrays } else { &mut piece.sums.value_arrays };
        *sum = sum.plus(one);
        if length * kind.size() > LARGE {
            piece.large.push(LargeArray { at, class: place, length });
            return;
        }
        array_head(&mut piece.bytes, at, class, length as u32);
        let bytes = self.bytes(at.saturating_add(header), length * self.width(kind), &mut piece.sums.lost);
        self.elements(&mut piece.bytes, kind, &bytes, &mut piece.sums.references);
    }

    /// Values of one kind in a row.
    fn elements(&self, out: &mut Vec<u8>, kind: Type, bytes: &[u8], references: &mut u64) {
        if kind.size() == 1 {
            out.extend(bytes);
            return;
        }
        for value in bytes.chunks_exact(self.width(kind) as usize) {
            self.value(out, kind, value, references);
        }
    }

    /// Bytes of a value in memory.
    fn width(&self, kind: Type) -> u64 {
        if kind == Type::Object { self.source.reference } else { kind.size() }
    }

    /// A value, whose bytes in memory are little-endian.
    fn value(&self, out: &mut Vec<u8>, kind: Type, bytes: &[u8], references: &mut u64) {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let mut value = u64::from_le_bytes(word);
        if kind == Type::Object {
            value = (self.source.decode)(value);
            *references += u64::from(value != 0);
        }
        let bytes = value.to_be_bytes();
        out.extend(bytes.iter().skip(bytes.len() - kind.size() as usize));
    }
}

impl Class {
    /// Bytes before the elements of an array, and what these are.
    fn elements(&self) -> (u64, Type) {
        match self.form {
            Form::Objects(header) => (header, Type::Object),
            Form::Values(header, kind) => (header, kind),
            Form::Instance(_) => (0, Type::Byte),
        }
    }
}

/// What stands before the elements of an array.
fn array_head(out: &mut Vec<u8>, at: Addr, class: &Class, length: u32) {
    let (_, kind) = class.elements();
    let is_objects = kind == Type::Object;
    put_object(out, if is_objects { sub::OBJECT_ARRAY } else { sub::VALUE_ARRAY }, at.get());
    out.extend(length.to_be_bytes());
    if is_objects {
        out.extend(class.id.to_be_bytes());
    } else {
        out.push(kind as u8);
    }
}

/// Write an array as a segment of its own.
pub(super) fn write_large(
    dump: &Dump<'_>,
    array: &LargeArray,
    out: &mut dyn Write,
    sums: &mut Sums,
) -> Result<(), ExportError> {
    let Some(class) = dump.classes.get(array.class as usize) else { return Ok(()) };
    let (header, kind) = class.elements();
    let mut piece = Vec::new();
    array_head(&mut piece, array.at, class, 0);
    let room = u64::from(u32::MAX) - piece.len() as u64;
    let length = array.length.min(room / kind.size());
    sums.cut += array.length - length;
    piece.clear();
    array_head(&mut piece, array.at, class, length as u32);
    head(out, tag::SEGMENT, piece.len() as u64 + length * kind.size())?;
    let (mut at, mut left) = (array.at.saturating_add(header), length * dump.width(kind));
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

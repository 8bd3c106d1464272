//! Meaning of the bytes of an object, by the form of its type.

use super::memory;
use super::names::KeptNames;
use super::numeric_fields::NumericFields;
use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::runtimes::api::anatomy::Meaning;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{Objects, PyType, TextContent, TypeForm, flags};

/// Size in bytes of an integer's digit.
const DIGIT: u64 = 4;

/// Size in bytes of a str's `state`.
const STATE: u64 = 4;

/// Size in bytes of an array descriptor's `itemsize`.
const ITEM_SIZE: u64 = 4;

/// Maximum number of bytes per text unit. Four-byte characters count as two units, so that their zero halves stay zero.
const WIDEST: u64 = 2;

pub(super) struct ObjectDescriber<'a, 'h, 'p> {
    heap: &'h Heap<'p>,
    objects: Objects<'p>,
    names: &'a KeptNames,
    numeric_fields: NumericFields,
    visit: &'a mut dyn FnMut(AddrRange, Meaning),
}

impl<'a, 'h, 'p> ObjectDescriber<'a, 'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>, names: &'a KeptNames, visit: &'a mut dyn FnMut(AddrRange, Meaning)) -> Self {
        ObjectDescriber { heap, objects: *heap.objects(), names, numeric_fields: NumericFields::default(), visit }
    }

    /// Describes the object at `at`, whose block ends at `end`. Memory that it owns is not included ([`memory::describe`]).
    /// `fixed`: the object is part of a program file, and so the same in every process.
    pub(super) fn object(&mut self, at: Addr, kind: &PyType, end: Addr, fixed: bool) {
        let shape = self.objects.shape;
        if !fixed {
            self.keep(at.saturating_sub(kind.prefix), kind.prefix);
        }
        self.keep(at, shape.object);
        if kind.itemsize != 0 && kind.form != TypeForm::Text {
            self.keep(at.saturating_add(shape.ob_size), WORD);
        }
        match kind.form {
            TypeForm::Text => self.text(at, kind, end, fixed),
            TypeForm::Integer => self.integer(at, kind, end, fixed),
            TypeForm::Bytes => self.bytes(at, kind, end),
            TypeForm::Leaf => self.leaf(at, kind, end),
            TypeForm::ByteArray => self.words(at, &[shape.ob_size, shape.bytearray_alloc, shape.bytearray_bytes]),
            TypeForm::List => self.words(at, &[shape.ob_size, shape.list_items, shape.list_allocated]),
            TypeForm::Dict => self.words(at, &[shape.dict.used, shape.dict.keys, shape.dict.values]),
            TypeForm::Set => self.set(at),
            TypeForm::Type => self.kind(at),
            TypeForm::Weak => self.value_of("PyWeakReference", "hash", at),
            TypeForm::Generator | TypeForm::Frame => self.frame(at, kind),
            TypeForm::Deque => self.keep(at, kind.basicsize),
            TypeForm::Array => {
                // The item size is in the descriptor, which belongs to the module.
                let descr = shape.array_descr.and_then(|offset| self.objects.ptr_at(at, offset));
                if let Some((descr, size)) = descr.zip(shape.array_itemsize).filter(|(descr, _)| !descr.is_null()) {
                    self.keep(descr.saturating_add(size), ITEM_SIZE);
                }
                let fields = [shape.array_items, shape.array_descr].into_iter().flatten();
                self.words(at, &fields.chain([shape.ob_size]).collect::<Vec<_>>());
            }
            TypeForm::NdArray => self.ndarray(at),
            TypeForm::Plain if kind.name == "code" => self.code(at, kind, end),
            TypeForm::Plain if kind.name == "frame" => self.frame(at, kind),
            TypeForm::Plain => {}
        }
        if matches!(kind.form, TypeForm::Plain | TypeForm::Dict) {
            let numeric_fields = self.numeric_fields.of(self.heap, kind).to_vec();
            self.words(at, &numeric_fields);
        }
        if kind.is(flags::INLINE_VALUES) {
            self.keep(at.saturating_add(kind.items()), shape.dict.first_value);
        }
    }

    /// In a free block only the link to the next block stays.
    pub(super) fn free(&mut self, at: Addr, end: Addr) {
        self.value(at.saturating_add(WORD), end);
    }

    fn keep(&mut self, at: Addr, len: u64) {
        (self.visit)(AddrRange::sized(at, len), Meaning::Structure);
    }

    fn words(&mut self, at: Addr, offsets: &[u64]) {
        offsets.iter().for_each(|offset| self.keep(at.saturating_add(*offset), WORD));
    }

    fn value(&mut self, from: Addr, to: Addr) {
        memory::value(from, to, self.visit);
    }

    /// Marks a one-word field of an interpreter's struct as a value.
    fn value_of(&mut self, of: &str, field: &str, at: Addr) {
        if let Ok(offset) = self.heap.runtime().layout.positive(of, field) {
            let at = at.saturating_add(offset);
            self.value(at, at.saturating_add(WORD));
        }
    }

    /// The rest of the block after a value is left over from earlier contents, unless a subclass has fields there.
    fn rest(kind: &PyType, end_of_value: Addr, end: Addr) -> Addr {
        let plain = kind.basicsize <= kind.fields_from && kind.dictoffset == 0 && !kind.is(flags::MANAGED_DICT);
        if plain { end_of_value.max(end) } else { end_of_value }
    }

    fn text(&mut self, at: Addr, kind: &PyType, end: Addr, fixed: bool) {
        let shape = self.objects.shape.text;
        let Some(content) = self.objects.text_content(at) else {
            self.value(at.saturating_add(self.objects.shape.object), end);
            return;
        };
        self.keep(at.saturating_add(shape.length), WORD);
        self.keep(at.saturating_add(shape.state), STATE);
        self.value_of("PyASCIIObject", "hash", at);
        if !content.compact || !content.ascii {
            self.words(at, &[shape.utf8_length, shape.utf8]);
        }
        if !content.compact {
            self.words(at, &[shape.data]);
        }
        let TextContent { start, length, kind: width, compact, .. } = content;
        let range = AddrRange::sized(start, length.saturating_mul(width));
        if range.len() > limits::MAX_RUNTIME_RANGE {
            return;
        }
        // Static objects are not secret: they are the same in everybody's program file.
        let is_fixed = fixed && compact;
        if is_fixed || self.names.has_text(&self.objects, at, length) {
            let is_public = is_fixed || self.names.is_public(&self.objects, at);
            (self.visit)(AddrRange::sized(range.start, content.bytes()), Meaning::Name(width as u8, is_public));
        } else if !range.is_empty() {
            (self.visit)(range, Meaning::Text(width.min(WIDEST) as u8));
        }
        if compact {
            self.value(range.start.saturating_add(content.bytes()), Self::rest(kind, range.end, end));
        }
    }

    fn integer(&mut self, at: Addr, kind: &PyType, end: Addr, fixed: bool) {
        let shape = self.objects.shape;
        self.words(at, &[shape.long_tag.unwrap_or(shape.ob_size)]);
        let digits = self.objects.integer_form(at).map_or(0, |form| form.digits).min(limits::MAX_PY_DIGITS);
        let start = at.saturating_add(shape.long_digits);
        let len = digits.saturating_mul(DIGIT);
        if fixed || self.names.has(at) {
            self.keep(start, len);
            return;
        }
        let to = start.saturating_add(len.next_multiple_of(WORD));
        self.value(start, Self::rest(kind, to, end));
    }

    fn bytes(&mut self, at: Addr, kind: &PyType, end: Addr) {
        let shape = self.objects.shape;
        self.value_of("PyBytesObject", "ob_shash", at);
        let start = at.saturating_add(shape.bytes);
        let length = self.objects.ob_size(at).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let to = start.saturating_add(length);
        match self.names.has(at) {
            true => self.keep(start, length.min(limits::MAX_RUNTIME_RANGE)),
            false => self.value(start, Self::rest(kind, to, end)),
        }
    }

    /// Describes a float or complex number.
    fn leaf(&mut self, at: Addr, kind: &PyType, end: Addr) {
        let (from, to) = (at.saturating_add(self.objects.shape.object), at.saturating_add(kind.fields_from));
        match self.names.has(at) {
            true => self.keep(from, to.since(from)),
            false => self.value(from, Self::rest(kind, to, end)),
        }
    }

    fn set(&mut self, at: Addr) {
        let shape = self.objects.shape.set;
        let used = self.heap.runtime().layout.positive("PySetObject", "used");
        self.words(at, &[shape.mask, shape.table]);
        self.words(at, &used.into_iter().collect::<Vec<_>>());
        self.value_of("PySetObject", "hash", at);
        let small = AddrRange::sized(at.saturating_add(shape.smalltable), SMALL_TABLE * shape.entry);
        memory::set_table(self.heap, small, self.visit);
    }

    /// Describes a type, including its `__slots__`.
    fn kind(&mut self, at: Addr) {
        let shape = self.objects.shape.types;
        let layout = &self.heap.runtime().layout;
        let bits = self.objects.word_at(at, shape.flags).unwrap_or(0);
        if bits & flags::HEAPTYPE == 0 {
            let size = layout.size("PyTypeObject").unwrap_or(shape.cached_keys);
            self.keep(at, size.min(shape.heap_size));
            return;
        }
        let slots = self.objects.ob_size(at).unwrap_or(0).clamp(0, limits::MAX_SHOWN_ROWS as i64) as u64;
        let members = slots.saturating_mul(layout.size("PyMemberDef").unwrap_or(0));
        self.keep(at, shape.heap_size.saturating_add(members));
    }

    /// Describes an object that contains a frame, up to the frame's variables.
    fn frame(&mut self, at: Addr, kind: &PyType) {
        let shape = self.objects.shape;
        let layout = &self.heap.runtime().layout;
        let inside = match kind.form {
            TypeForm::Generator => shape.generator.map(|shape| shape.frame),
            _ => shape.frame_object.map(|shape| shape.own),
        };
        let variables = layout.positive("_PyInterpreterFrame", "localsplus").ok();
        let len = inside.zip(variables).map(|(inside, variables)| inside.saturating_add(variables));
        let old = || layout.positive("PyFrameObject", "f_localsplus").ok().filter(|_| kind.form == TypeForm::Plain);
        self.keep(at, len.or_else(old).unwrap_or(kind.basicsize));
    }

    /// Instructions are values, because small numbers are among them.
    fn code(&mut self, at: Addr, kind: &PyType, end: Addr) {
        let instructions = self.heap.runtime().layout.positive("PyCodeObject", "co_code_adaptive");
        let head = instructions.unwrap_or(kind.basicsize);
        self.keep(at, head);
        self.value(at.saturating_add(head), end);
    }

    fn ndarray(&mut self, at: Addr) {
        let numpy = self.objects.shape.ndarray;
        self.words(at, &[numpy.data, numpy.nd, numpy.dimensions, numpy.strides, numpy.descr, numpy.flags]);
        let ptr = |offset| self.objects.ptr_at(at, offset).filter(|to| !to.is_null());
        let nd = self.objects.word_at(at, numpy.nd).unwrap_or(0) & 0xffff_ffff;
        let (dimensions, strides, descr) = (ptr(numpy.dimensions), ptr(numpy.strides), ptr(numpy.descr));
        if nd <= numpy.max_dimensions {
            [dimensions, strides].into_iter().flatten().for_each(|of| self.keep(of, nd * WORD));
        }
        if let Some(descr) = descr {
            [numpy.kind, numpy.byte_order].into_iter().for_each(|letter| self.keep(descr.saturating_add(letter), 1));
        }
    }
}

/// Number of set entries stored inside the object (PySet_MINSIZE).
const SMALL_TABLE: u64 = 8;

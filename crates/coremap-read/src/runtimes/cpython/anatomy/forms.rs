//! Meaning of the bytes of an object, by the form of its type.
//!
//! An interpreter does not clear the memory of most objects. What it has not written is left over from the block's
//! earlier contents, which may be anybody's text. So each structure stays only as far as it is valid:
//!
//! | structure | stays | condition |
//! |---|---|---|
//! | header, and the collector's before it | all | the interpreter writes them for every object |
//! | `ob_size` | all | the size that it means fits into the block, or the object is static |
//! | str, int, bytes, bytearray, list, dict, set, array, ndarray, weak reference | named fields | written for every object |
//! | type | the struct and its `__slots__` | cleared when it is made |
//! | deque | the struct | cleared when it is made; fields of subclasses are not in it |
//! | code | the struct without its padding | the fields are written for every object |
//! | generator, coroutine | the fields that readers need | written for every object |
//! | frame object | the fields that readers need | written for every object; blocks of `try` (up to 3.10) are not |
//! | frame inside these | the fields that readers need | the object has a frame; bytes after its used part are left over |
//! | PyDictValues | the header without its padding | written for every table |
//! | table of keys | the header | written for every table |

use super::memory;
use super::names::KeptNames;
use super::numeric_fields::NumericFields;
use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::runtimes::api::anatomy::Meaning;
use crate::runtimes::cpython::heap::{FrameSpace, Heap, frame_space};
use crate::runtimes::cpython::objects::{Objects, PyType, TextContent, TypeForm, flags};

/// Size in bytes of an integer's digit.
const DIGIT: u64 = 4;

/// Size in bytes of a str's `state`.
const STATE: u64 = 4;

/// Size in bytes of an array descriptor's `itemsize`.
const ITEM_SIZE: u64 = 4;

/// Maximum number of bytes per text unit. Four-byte characters count as two units, so that their zero halves stay zero.
const WIDEST: u64 = 2;

/// Fields that readers need, with their sizes in bytes. All versions are in one list; each has some of the fields.
/// Pointers are among them, because in a program that is not position-independent few words count as addresses.
const GENERATOR: &[(&str, u64)] = &[("gi_frame", WORD), ("gi_code", WORD), ("gi_frame_state", 1)];
const FRAME_OBJECT: &[(&str, u64)] = &[
    ("f_back", WORD),
    ("f_code", WORD),
    ("f_frame", WORD),
    ("f_lasti", 4),
    ("f_stackdepth", 4),
    ("f_stacktop", WORD),
    ("f_valuestack", WORD),
];
const FRAME: &[(&str, u64)] = &[
    ("f_code", WORD),
    ("f_executable", WORD),
    ("instr_ptr", WORD),
    ("is_entry", 1),
    ("owner", 1),
    ("prev_instr", WORD),
    ("previous", WORD),
    ("stackpointer", WORD),
    ("stacktop", 4),
];

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

    /// Describes the object at `at`, whose block ends at `end`. Memory that it owns is not included
    /// ([`memory::describe`]). `fixed`: the object is part of a program file, and so the same in every process.
    pub(super) fn object(&mut self, at: Addr, kind: &PyType, end: Addr, fixed: bool) {
        let shape = self.objects.shape;
        if !fixed {
            self.keep(at.saturating_sub(kind.prefix), kind.prefix);
        }
        self.keep(at, shape.object);
        if self.has_size(at, kind, end, fixed) {
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
            TypeForm::Generator => self.generator(at, end),
            TypeForm::Frame => self.frame(at, end),
            TypeForm::Deque => {
                let size = self.heap.runtime().layout.size("dequeobject").unwrap_or(shape.object);
                self.keep(at, size.min(kind.basicsize));
            }
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
            TypeForm::Plain if kind.name == "frame" => self.frame(at, end),
            TypeForm::Plain => {}
        }
        if matches!(kind.form, TypeForm::Plain | TypeForm::Dict) {
            let numeric_fields = self.numeric_fields.of(self.heap, kind).to_vec();
            self.words(at, &numeric_fields);
        }
        if kind.is(flags::INLINE_VALUES) {
            self.keep(at.saturating_add(kind.items()), memory::values_head(self.heap));
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

    /// Whether `ob_size` is the object's number of items. A type of an extension may have an item size, and something
    /// else at this offset.
    fn has_size(&self, at: Addr, kind: &PyType, end: Addr, fixed: bool) -> bool {
        if !kind.has_size() || kind.form == TypeForm::Text {
            return false;
        }
        // The sign of an int is the sign of its number of digits. Heap types have member descriptors behind them.
        let items = || self.objects.ob_size(at).map_or(u64::MAX, i64::unsigned_abs).saturating_mul(kind.itemsize);
        fixed || at.saturating_add(kind.basicsize).saturating_add(items()) <= end
    }

    /// Keeps fields of an interpreter's struct, as far as this version has them.
    fn fields(&mut self, of: &str, at: Addr, fields: &[(&str, u64)]) {
        for (field, len) in fields {
            if let Ok(offset) = self.heap.runtime().layout.positive(of, field) {
                self.keep(at.saturating_add(offset), *len);
            }
        }
    }

    fn generator(&mut self, at: Addr, end: Addr) {
        self.fields("PyGenObject", at, GENERATOR);
        self.frame_inside(TypeForm::Generator, at, end);
    }

    fn frame(&mut self, at: Addr, end: Addr) {
        self.fields("PyFrameObject", at, FRAME_OBJECT);
        if self.objects.shape.frame_object.is_some() {
            return self.frame_inside(TypeForm::Frame, at, end);
        }
        // The blocks of `try`, of which only the first `f_iblock` are in use. Variables follow.
        let offset = |field| self.heap.runtime().layout.positive("PyFrameObject", field).ok();
        if let Some((blocks, variables)) = offset("f_blockstack").zip(offset("f_localsplus")) {
            self.value(at.saturating_add(blocks), at.saturating_add(variables));
        }
    }

    /// Describes the space for a frame in a generator or a frame object.
    fn frame_inside(&mut self, form: TypeForm, at: Addr, end: Addr) {
        match frame_space(&self.objects, &self.heap.runtime().layout, form, at) {
            Some(FrameSpace::Empty(start)) => self.value(start, end),
            Some(FrameSpace::Used(start, used)) => {
                self.fields("_PyInterpreterFrame", start, FRAME);
                if let Some(used) = used {
                    self.value(used, end);
                }
            }
            None => {}
        }
    }

    /// Instructions are values, because small numbers are among them.
    fn code(&mut self, at: Addr, kind: &PyType, end: Addr) {
        let field = |name| self.heap.runtime().layout.positive("PyCodeObject", name).ok();
        let instructions = field("co_code_adaptive");
        let head = instructions.unwrap_or(kind.basicsize);
        // A number of four bytes before a pointer: padding follows it.
        let last_number = field(if instructions.is_some() { "_co_firsttraceable" } else { "co_firstlineno" });
        let gap = last_number.map_or(head, |offset| offset.saturating_add(4)).min(head);
        self.keep(at, gap);
        let after = gap.next_multiple_of(WORD).min(head);
        self.keep(at.saturating_add(after), head.saturating_sub(after));
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

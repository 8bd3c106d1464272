//! References of an object, and memory that it owns.
//!
//! No table lists the fields of types that are written in C. So each word between an instance's header and its items is
//! a possible reference, and it is one if an object begins at its target. The objects are known, so few other values
//! pass. Fields that would be misread are excluded by name: weak references and numbers.
//!
//! Items stored in separate memory (of a list, dict, set or deque) are visited as if they followed the object's fields,
//! at offsets from `tp_basicsize` on.

use super::deque::Cursor;
use super::owned::OwnedKind;
use super::source::{Source, word};
use crate::addr::{Addr, WORD};
use crate::layout::Layout;
use crate::limits;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::objects::{DictKeys, Managed, Objects, PyType, TypeForm, flags};
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// An instance of a class created at run time keeps its type alive.
const TYPE: Link = Link::NoField("(type)");

/// An instance's dict, if the pointer to it precedes the object.
const MANAGED_DICT: Link = Link::NoField("__dict__");

/// Number of positions before the position of the word at offset 0.
const FIRST_WORD: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnedMemory {
    pub(super) kind: OwnedKind,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// A reference of an object, or memory that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawReference {
    /// A word that may point to an object.
    Object(Link, u64),
    Memory(OwnedMemory),
}

#[derive(Clone, Copy)]
pub(super) struct Visitor<'v, 'p> {
    pub(super) objects: &'v Objects<'p>,
    pub(super) source: &'v Source<'p>,
    pub(super) layout: &'v Layout,
    pub(super) cursor: &'v Cursor,
    pub(super) room: &'v dyn Room,
}

/// Upper bound on the size of objects.
pub(super) trait Room {
    /// Bytes that the object at `at` can have at most.
    fn room(&self, at: u64) -> u64;
}

/// The visit of one object, from a given position on.
pub(super) struct Visit<'s, F> {
    from: u32,
    pub(super) basicsize: u64,
    sink: &'s mut F,
}

impl<F: FnMut(u32, RawReference) -> bool> Visit<'_, F> {
    /// Visits a reference at `offset` from the object's start.
    #[inline(always)]
    pub(super) fn word(&mut self, offset: u64, value: u64) -> bool {
        let place = position(offset);
        if value == 0 || value & 7 != 0 || place < self.from {
            return true;
        }
        (self.sink)(place, RawReference::Object(Link::Field(offset), value))
    }

    /// Visits item `index`, which is in separate memory.
    #[inline(always)]
    pub(super) fn item(&mut self, index: u64, value: u64) -> bool {
        self.word(self.basicsize.saturating_add(index.saturating_mul(WORD)), value)
    }

    fn no_field(&mut self, place: u32, link: Link, value: u64) -> bool {
        place < self.from || value == 0 || (self.sink)(place, RawReference::Object(link, value))
    }

    pub(super) fn memory(&mut self, offset: u64, kind: OwnedKind, at: u64, bytes: u64) -> bool {
        let place = position(offset);
        let sane = at != 0 && bytes != 0 && bytes <= limits::MAX_RUNTIME_RANGE && place >= self.from;
        !sane || (self.sink)(place, RawReference::Memory(OwnedMemory { kind, at, bytes }))
    }
}

/// Position of the word at `offset`.
#[inline(always)]
fn position(offset: u64) -> u32 {
    u32::try_from(offset / WORD).unwrap_or(u32::MAX - FIRST_WORD).saturating_add(FIRST_WORD)
}

/// Index of the first item to visit from position `from` on. The items before are skipped without being read.
fn first_item(from: u32, basicsize: u64) -> u64 {
    u64::from(from.saturating_sub(position(basicsize)))
}

impl Visitor<'_, '_> {
    /// Visits the references and owned memory of the object at `at`, from position `from` on, in order. Returns whether
    /// to continue.
    pub(super) fn each<F: FnMut(u32, RawReference) -> bool>(
        &self,
        at: u64,
        kind: &PyType,
        from: u32,
        sink: &mut F,
    ) -> bool {
        let words = self.source.words(at, kind.basicsize);
        let mut visit = Visit { from, basicsize: kind.items(), sink };
        if kind.is(flags::HEAPTYPE) && !visit.no_field(0, TYPE, kind.address.get()) {
            return false;
        }
        let values = match self.managed(at, kind) {
            Managed::Dict(dict) if !visit.no_field(1, MANAGED_DICT, dict) => return false,
            Managed::Values(values) => Some((values, self.value_count(kind, values))),
            _ => None,
        };
        // Up to 3.12 the values are in separate memory.
        if let Some((values, count)) = values.filter(|_| !kind.is(flags::INLINE_VALUES)) {
            let memory = OwnedMemory { kind: OwnedKind::DictValues, at: values, bytes: count.saturating_mul(WORD) };
            if from <= 1 && count > 0 && !(visit.sink)(1, RawReference::Memory(memory)) {
                return false;
            }
        }
        self.fields(words, at, kind, &mut visit) && self.items(words, at, kind, values, &mut visit)
    }

    #[inline(always)]
    fn dict_keys(&self, keys: Addr) -> Option<DictKeys> {
        self.objects.dict_keys_in(keys, |offset| self.source.word(keys.wrapping_add(offset).get()))
    }

    /// Visits the words between header and items.
    #[inline(always)]
    fn fields<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        kind: &PyType,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let shape = &self.objects.shape;
        match kind.form {
            TypeForm::Text if !self.text(at, visit) => return false,
            TypeForm::ByteArray => {
                let get = |offset| word(words, offset).unwrap_or(0);
                let (buffer, bytes) = (get(shape.bytearray_bytes), get(shape.bytearray_alloc));
                if !visit.memory(shape.bytearray_bytes, OwnedKind::ByteArrayBuffer, buffer, bytes) {
                    return false;
                }
            }
            TypeForm::Weak => {
                let callback = word(words, shape.weakref_callback).unwrap_or(0);
                if !visit.word(shape.weakref_callback, callback) {
                    return false;
                }
            }
            _ => {}
        }
        // The space for a frame inside a frame object has old contents until the frame is moved there.
        let end = match (kind.form, shape.frame_object) {
            (TypeForm::Frame, Some(frame)) if word(words, frame.frame) != Some(at.wrapping_add(frame.own)) => frame.own,
            _ => kind.basicsize,
        };
        let mut offset = kind.fields_from;
        while offset + WORD <= end.min(kind.basicsize) {
            let Some(value) = word(words, offset) else { return true };
            if value != 0 && offset != kind.weaklistoffset {
                let go_on = match self.word_kind(words, at, kind, offset, value) {
                    WordKind::Word => visit.word(offset, value),
                    WordKind::Tagged => visit.word(offset, value & !STACK_REF_TAGS),
                    WordKind::Memory(owned) => visit.memory(offset, owned.kind, owned.at, owned.bytes),
                    WordKind::Nothing => true,
                };
                if !go_on {
                    return false;
                }
            }
            offset += WORD;
        }
        true
    }

    /// Classifies a word of an object: a reference, owned memory, or neither.
    #[inline(always)]
    fn word_kind(&self, words: &[[u8; 8]], at: u64, kind: &PyType, offset: u64, value: u64) -> WordKind {
        let shape = &self.objects.shape;
        let owned = |kind, bytes| WordKind::Memory(OwnedMemory { kind, at: value, bytes });
        let keys = || {
            let found = self.dict_keys(Addr::new(value));
            found.map_or(WordKind::Nothing, |keys| owned(OwnedKind::DictKeys, keys.bytes))
        };
        match kind.form {
            TypeForm::List if offset == shape.list_items => {
                let allocated = word(words, shape.list_allocated).unwrap_or(0);
                owned(OwnedKind::ListItems, allocated.saturating_mul(WORD))
            }
            TypeForm::Dict if offset == shape.dict.keys => keys(),
            TypeForm::Dict if offset == shape.dict.values => {
                let head = self.source.word(value).unwrap_or(0);
                if shape.dict.embedded.is_some_and(|at| head >> (8 * (at & 7)) & 1 != 0) {
                    return WordKind::Nothing;
                }
                let keys = word(words, shape.dict.keys).and_then(|keys| self.dict_keys(Addr::new(keys)));
                let count = keys.map_or(0, |keys| keys.count);
                owned(OwnedKind::DictValues, count.saturating_mul(WORD).saturating_add(shape.dict.first_value))
            }
            TypeForm::Set if (shape.set.table..shape.set.smalltable + 8 * shape.set.entry).contains(&offset) => {
                let slots = word(words, shape.set.mask).unwrap_or(0).saturating_add(1);
                let inside = value == at.wrapping_add(shape.set.smalltable);
                match offset == shape.set.table && !inside {
                    true => owned(OwnedKind::SetTable, slots.saturating_mul(shape.set.entry)),
                    false => WordKind::Nothing,
                }
            }
            TypeForm::Type if offset == shape.types.cached_keys => keys(),
            TypeForm::Array if Some(offset) == shape.array_items => {
                owned(OwnedKind::ArrayItems, self.array_bytes(words).unwrap_or(0))
            }
            TypeForm::Generator | TypeForm::Frame => WordKind::Tagged,
            TypeForm::NdArray if offset == shape.ndarray.data => self.data_of_ndarray(words, value),
            _ => WordKind::Word,
        }
    }

    /// Size in bytes of an `array.array`'s item buffer: its capacity times the item size in its descriptor.
    fn array_bytes(&self, words: &[[u8; 8]]) -> Option<u64> {
        let shape = &self.objects.shape;
        let descr = Addr::new(word(words, shape.array_descr?)?);
        let size = self.source.word(descr.checked_add(shape.array_itemsize?)?.get() & !7)?;
        let size = size >> (8 * (shape.array_itemsize? & 7)) & 0xffff_ffff;
        word(words, shape.ob_size)?.checked_mul(size.min(limits::MAX_PY_ITEM_SIZE))
    }

    /// Visits the UTF-8 form of a str, and its characters if they are outside the object.
    fn text<F: FnMut(u32, RawReference) -> bool>(&self, at: u64, visit: &mut Visit<'_, F>) -> bool {
        let shape = &self.objects.shape.text;
        let content = self.objects.text_in(Addr::new(at), |offset| self.source.word(at.wrapping_add(offset)));
        let Some(content) = content else { return true };
        if content.compact && content.ascii {
            return true;
        }
        let get = |offset: u64| self.source.word(at.wrapping_add(offset)).unwrap_or(0);
        let (utf8, length) = (get(shape.utf8), get(shape.utf8_length));
        // For ASCII, the UTF-8 form is the characters themselves.
        let apart = utf8 != content.start.get();
        if apart && !visit.memory(shape.utf8, OwnedKind::TextBuffer, utf8, length.saturating_add(1)) {
            return false;
        }
        content.compact || visit.memory(shape.data, OwnedKind::TextBuffer, content.start.get(), content.bytes())
    }

    #[inline(always)]
    fn items<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        kind: &PyType,
        values: Option<(u64, u64)>,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let shape = &self.objects.shape;
        let first = first_item(visit.from, kind.basicsize);
        let sized = || word(words, shape.ob_size).map_or(0, |n| (n as i64).unsigned_abs());
        if let Some((values, count)) = values {
            let start = values.wrapping_add(shape.dict.first_value);
            return each_word(self.source.words(start, count.saturating_mul(WORD)), first, count, visit);
        }
        match kind.form {
            TypeForm::Plain if kind.itemsize == WORD => {
                let count = sized();
                let bytes = kind.basicsize.saturating_add(count.saturating_mul(WORD));
                if kind.may_lack_size() && kind.prefix.saturating_add(bytes) > self.room.room(at) {
                    return true;
                }
                let items = self.source.words(at.wrapping_add(kind.basicsize), count.saturating_mul(WORD));
                each_word(items, first, count, visit)
            }
            TypeForm::List => {
                let count = sized().min(word(words, shape.list_allocated).unwrap_or(0));
                let start = word(words, shape.list_items).unwrap_or(0);
                each_word(self.source.words(start, count.saturating_mul(WORD)), first, count, visit)
            }
            TypeForm::Dict => self.entries(words, first, visit),
            TypeForm::Set => {
                let slots = word(words, shape.set.mask).unwrap_or(0).saturating_add(1);
                let table = word(words, shape.set.table).unwrap_or(0);
                let entries = self.source.words(table, slots.saturating_mul(shape.set.entry));
                for slot in first..slots {
                    let key = slot.saturating_mul(shape.set.entry).saturating_add(shape.set.key);
                    // Stop at the end of the memory in the core, whatever the number of slots is.
                    let Some(key) = word(entries, key) else { break };
                    if !visit.item(slot, key) {
                        return false;
                    }
                }
                true
            }
            TypeForm::Generator => self.generator(words, at, visit),
            TypeForm::Frame => self.frame_object(words, at, visit),
            TypeForm::Deque => self.deque(words, at, first, visit),
            _ => self.dict_at_end(words, at, kind, visit),
        }
    }

    /// Visits the keys and values of a dict, as alternating items.
    fn entries<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        first: u64,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let shape = &self.objects.shape.dict;
        let keys = word(words, shape.keys).and_then(|keys| self.dict_keys(Addr::new(keys)));
        let Some(keys) = keys else { return true };
        let values = word(words, shape.values).unwrap_or(0);
        let entries = self.source.words(keys.entries.get(), keys.count.saturating_mul(keys.size));
        let apart = match values {
            0 => &[],
            _ => self.source.words(values.wrapping_add(shape.first_value), keys.count.saturating_mul(WORD)),
        };
        for index in first / 2..keys.count {
            let entry = index.saturating_mul(keys.size);
            let Some(key) = word(entries, entry.saturating_add(keys.key)) else { return true };
            let value = match values {
                0 => word(entries, entry.saturating_add(keys.value)),
                _ => word(apart, index.saturating_mul(WORD)),
            };
            if !visit.item(2 * index, key) || !visit.item(2 * index + 1, value.unwrap_or(0)) {
                return false;
            }
        }
        true
    }

    /// Number of attribute values of an instance. Since 3.13 it is stored with the values. Before, there is one for
    /// each name that the class shares, in that order.
    fn value_count(&self, kind: &PyType, values: u64) -> u64 {
        let count = match self.objects.shape.dict.capacity {
            Some(at) => self.source.word(values).map(|head| head >> (8 * (at & 7)) & 0xff),
            None => self.dict_keys(kind.shared_keys).map(|keys| keys.count),
        };
        count.unwrap_or(0)
    }

    #[inline(always)]
    fn managed(&self, at: u64, kind: &PyType) -> Managed {
        let before = |offset: i64| self.source.word(at.wrapping_add_signed(offset));
        self.objects.managed(at, kind.flags, kind.basicsize, before)
    }

    /// Visits the dict of a variable-size instance. It follows the items: its offset counts from the end.
    fn dict_at_end<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        kind: &PyType,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        // Since 3.12 the offset is -1 if the dict's pointer precedes the instance.
        if kind.dictoffset >= 0 || kind.is(flags::MANAGED_DICT) {
            return true;
        }
        let count = word(words, self.objects.shape.ob_size).map_or(0, |n| (n as i64).unsigned_abs());
        let size = kind.basicsize.saturating_add(count.saturating_mul(kind.itemsize)).next_multiple_of(WORD);
        let Some(offset) = size.checked_add_signed(kind.dictoffset).filter(|_| size <= limits::MAX_RUNTIME_RANGE)
        else {
            return true;
        };
        self.source.word(at.wrapping_add(offset)).is_none_or(|dict| visit.word(offset, dict))
    }

    /// Classifies the data pointer of a numpy array: owned memory if the array owns it.
    fn data_of_ndarray(&self, words: &[[u8; 8]], value: u64) -> WordKind {
        match super::fields::ndarray(self.objects, words) {
            Some(array) if array.owns => {
                WordKind::Memory(OwnedMemory { kind: OwnedKind::ArrayData, at: value, bytes: array.bytes })
            }
            Some(_) => WordKind::Nothing,
            None => WordKind::Word,
        }
    }
}

/// Classification of a word.
enum WordKind {
    Word,
    /// A reference with tag bits that are not part of the address.
    Tagged,
    Memory(OwnedMemory),
    Nothing,
}

#[inline(always)]
fn each_word<F: FnMut(u32, RawReference) -> bool>(
    words: &[[u8; 8]],
    first: u64,
    count: u64,
    visit: &mut Visit<'_, F>,
) -> bool {
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let items = words.iter().take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate().skip(first);
    for (index, item) in items {
        if !visit.item(index as u64, u64::from_le_bytes(*item)) {
            return false;
        }
    }
    true
}

//! What an object holds: other objects, and memory of its own.
//!
//! Types written in C have fields that no table tells. Each word of an instance between its header and its items is
//! looked at, and what is known to begin an object is taken for a reference: the lists of objects are known, so that little
//! else looks like one. What such words would tell wrongly is left out by name: weak references, and numbers.
//!
//! Items that stand in memory of their own (of a list, a dict, a set, a deque) are visited as if they followed the
//! object's fields, at offsets from `tp_basicsize` on.

use super::deque::Cursor;
use super::owned::OwnedKind;
use super::source::{Source, word};
use crate::addr::{Addr, WORD};
use crate::layout::Layout;
use crate::limits;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::objects::{DictKeys, Form, Managed, Objects, PyType, flags};
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// An instance keeps its type, where that was made while the program runs.
const TYPE: Link = Link::Beside("(type)");

/// The dict of an instance that stands before it.
const MANAGED_DICT: Link = Link::Beside("__dict__");

/// Places before that of the word at offset 0.
const FIRST_WORD: u32 = 2;

/// Memory that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) kind: OwnedKind,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// What an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A word that may lead to an object.
    Object(Link, u64),
    /// Memory.
    Memory(Owned),
}

/// Visits what objects hold.
#[derive(Clone, Copy)]
pub(super) struct Visitor<'v, 'p> {
    pub(super) objects: &'v Objects<'p>,
    pub(super) source: &'v Source<'p>,
    pub(super) layout: &'v Layout,
    pub(super) cursor: &'v Cursor,
}

/// One object that is visited, from a place on.
pub(super) struct Visit<'s, F> {
    from: u32,
    pub(super) basicsize: u64,
    sink: &'s mut F,
}

impl<F: FnMut(u32, Held) -> bool> Visit<'_, F> {
    /// A reference at an offset from the object's start.
    #[inline(always)]
    pub(super) fn word(&mut self, offset: u64, value: u64) -> bool {
        let place = place(offset);
        if value == 0 || value & 7 != 0 || place < self.from {
            return true;
        }
        (self.sink)(place, Held::Object(Link::Field(offset), value))
    }

    /// A reference that is the item of that number, in memory of its own.
    #[inline(always)]
    pub(super) fn item(&mut self, index: u64, value: u64) -> bool {
        self.word(self.basicsize.saturating_add(index.saturating_mul(WORD)), value)
    }

    fn beside(&mut self, place: u32, link: Link, value: u64) -> bool {
        place < self.from || value == 0 || (self.sink)(place, Held::Object(link, value))
    }

    pub(super) fn memory(&mut self, offset: u64, kind: OwnedKind, at: u64, bytes: u64) -> bool {
        let place = place(offset);
        let sane = at != 0 && bytes != 0 && bytes <= limits::MAX_RUNTIME_RANGE && place >= self.from;
        !sane || (self.sink)(place, Held::Memory(Owned { kind, at, bytes }))
    }
}

/// The place of a word.
#[inline(always)]
fn place(offset: u64) -> u32 {
    u32::try_from(offset / WORD).unwrap_or(u32::MAX - FIRST_WORD).saturating_add(FIRST_WORD)
}

/// The first item that a visit from a place on looks at: what a long list has before is not looked at again.
fn first_item(from: u32, basicsize: u64) -> u64 {
    u64::from(from.saturating_sub(place(basicsize)))
}

impl Visitor<'_, '_> {
    /// Visit what the object at `at` holds, from the place `from` on, in the order of places; whether to go on.
    pub(super) fn each<F: FnMut(u32, Held) -> bool>(&self, at: u64, kind: &PyType, from: u32, sink: &mut F) -> bool {
        let words = self.source.words(at, kind.basicsize);
        let mut visit = Visit { from, basicsize: kind.items(), sink };
        if kind.is(flags::HEAPTYPE) && !visit.beside(0, TYPE, kind.address.get()) {
            return false;
        }
        let values = match self.managed(at, kind) {
            Managed::Dict(dict) if !visit.beside(1, MANAGED_DICT, dict) => return false,
            Managed::Values(values) => Some((values, self.value_count(kind, values))),
            _ => None,
        };
        // Up to 3.12 they stand in memory of their own.
        if let Some((values, count)) = values.filter(|_| !kind.is(flags::INLINE_VALUES)) {
            let memory = Owned { kind: OwnedKind::DictValues, at: values, bytes: count.saturating_mul(WORD) };
            if from <= 1 && count > 0 && !(visit.sink)(1, Held::Memory(memory)) {
                return false;
            }
        }
        self.fields(words, at, kind, &mut visit) && self.items(words, at, kind, values, &mut visit)
    }

    /// The table of keys at `keys`.
    #[inline(always)]
    fn dict_keys(&self, keys: Addr) -> Option<DictKeys> {
        self.objects.dict_keys_in(keys, |offset| self.source.word(keys.wrapping_add(offset).get()))
    }

    /// Words from the header to the items.
    #[inline(always)]
    fn fields<F: FnMut(u32, Held) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        kind: &PyType,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let shape = &self.objects.shape;
        match kind.form {
            Form::Text if !self.text(at, visit) => return false,
            Form::ByteArray => {
                let get = |offset| word(words, offset).unwrap_or(0);
                let (buffer, bytes) = (get(shape.bytearray_bytes), get(shape.bytearray_alloc));
                if !visit.memory(shape.bytearray_bytes, OwnedKind::ByteArrayBuffer, buffer, bytes) {
                    return false;
                }
            }
            Form::Weak => {
                let callback = word(words, shape.weakref_callback).unwrap_or(0);
                if !visit.word(shape.weakref_callback, callback) {
                    return false;
                }
            }
            _ => {}
        }
        let mut offset = kind.fields_from;
        while offset + WORD <= kind.basicsize {
            let Some(value) = word(words, offset) else { return true };
            if value != 0 && offset != kind.weaklistoffset {
                let go_on = match self.special(words, at, kind, offset, value) {
                    Special::Word => visit.word(offset, value),
                    Special::Tagged => visit.word(offset, value & !STACK_REF_TAGS),
                    Special::Memory(owned) => visit.memory(offset, owned.kind, owned.at, owned.bytes),
                    Special::Nothing => true,
                };
                if !go_on {
                    return false;
                }
            }
            offset += WORD;
        }
        true
    }

    /// What a word of an object is that leads to no object.
    #[inline(always)]
    fn special(&self, words: &[[u8; 8]], at: u64, kind: &PyType, offset: u64, value: u64) -> Special {
        let shape = &self.objects.shape;
        let owned = |kind, bytes| Special::Memory(Owned { kind, at: value, bytes });
        let keys = || {
            let found = self.dict_keys(Addr::new(value));
            found.map_or(Special::Nothing, |keys| owned(OwnedKind::DictKeys, keys.bytes))
        };
        match kind.form {
            Form::List if offset == shape.list_items => {
                let allocated = word(words, shape.list_allocated).unwrap_or(0);
                owned(OwnedKind::ListItems, allocated.saturating_mul(WORD))
            }
            Form::Dict if offset == shape.dict.keys => keys(),
            Form::Dict if offset == shape.dict.values => {
                let head = self.source.word(value).unwrap_or(0);
                if shape.dict.embedded.is_some_and(|at| head >> (8 * (at & 7)) & 1 != 0) {
                    return Special::Nothing;
                }
                let keys = word(words, shape.dict.keys).and_then(|keys| self.dict_keys(Addr::new(keys)));
                let count = keys.map_or(0, |keys| keys.count);
                owned(OwnedKind::DictValues, count.saturating_mul(WORD).saturating_add(shape.dict.first_value))
            }
            Form::Set if (shape.set.table..shape.set.smalltable + 8 * shape.set.entry).contains(&offset) => {
                let slots = word(words, shape.set.mask).unwrap_or(0).saturating_add(1);
                let inside = value == at.wrapping_add(shape.set.smalltable);
                match offset == shape.set.table && !inside {
                    true => owned(OwnedKind::SetTable, slots.saturating_mul(shape.set.entry)),
                    false => Special::Nothing,
                }
            }
            Form::Type if offset == shape.types.cached_keys => keys(),
            Form::Array if Some(offset) == shape.array_items => {
                owned(OwnedKind::ArrayItems, self.array_bytes(words).unwrap_or(0))
            }
            Form::Generator | Form::Frame => Special::Tagged,
            Form::NdArray if offset == shape.ndarray.data => self.data_of_ndarray(words, value),
            _ => Special::Word,
        }
    }

    /// Bytes of the items of an array: how many there is room for, and what its descriptor says of one.
    fn array_bytes(&self, words: &[[u8; 8]]) -> Option<u64> {
        let shape = &self.objects.shape;
        let descr = Addr::new(word(words, shape.array_descr?)?);
        let size = self.source.word(descr.checked_add(shape.array_itemsize?)?.get() & !7)?;
        let size = size >> (8 * (shape.array_itemsize? & 7)) & 0xffff_ffff;
        word(words, shape.ob_size)?.checked_mul(size.min(limits::MAX_PY_ITEM_SIZE))
    }

    /// The UTF-8 form of a str, and its characters where they stand elsewhere.
    fn text<F: FnMut(u32, Held) -> bool>(&self, at: u64, visit: &mut Visit<'_, F>) -> bool {
        let shape = &self.objects.shape.text;
        let content = self.objects.text_in(Addr::new(at), |offset| self.source.word(at.wrapping_add(offset)));
        let Some(content) = content else { return true };
        if content.compact && content.ascii {
            return true;
        }
        let get = |offset: u64| self.source.word(at.wrapping_add(offset)).unwrap_or(0);
        let (utf8, length) = (get(shape.utf8), get(shape.utf8_length));
        // Of ASCII it is the characters themselves.
        let apart = utf8 != content.start.get();
        if apart && !visit.memory(shape.utf8, OwnedKind::TextBuffer, utf8, length.saturating_add(1)) {
            return false;
        }
        content.compact || visit.memory(shape.data, OwnedKind::TextBuffer, content.start.get(), content.bytes())
    }

    /// Items, wherever they stand.
    #[inline(always)]
    fn items<F: FnMut(u32, Held) -> bool>(
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
            Form::Plain if kind.itemsize == WORD => {
                let count = sized();
                let items = self.source.words(at.wrapping_add(kind.basicsize), count.saturating_mul(WORD));
                each_word(items, first, count, visit)
            }
            Form::List => {
                let count = sized().min(word(words, shape.list_allocated).unwrap_or(0));
                let start = word(words, shape.list_items).unwrap_or(0);
                each_word(self.source.words(start, count.saturating_mul(WORD)), first, count, visit)
            }
            Form::Dict => self.entries(words, first, visit),
            Form::Set => {
                let slots = word(words, shape.set.mask).unwrap_or(0).saturating_add(1);
                let table = word(words, shape.set.table).unwrap_or(0);
                let entries = self.source.words(table, slots.saturating_mul(shape.set.entry));
                for slot in first..slots {
                    let key = slot.saturating_mul(shape.set.entry).saturating_add(shape.set.key);
                    // Behind what the core has there is nothing to be seen, however many slots it says there are.
                    let Some(key) = word(entries, key) else { break };
                    if !visit.item(slot, key) {
                        return false;
                    }
                }
                true
            }
            Form::Generator => self.generator(words, at, visit),
            Form::Frame => self.frame_object(words, at, visit),
            Form::Deque => self.deque(words, at, first, visit),
            _ => self.dict_at_end(words, at, kind, visit),
        }
    }

    /// Keys and values of a dict: an item each.
    fn entries<F: FnMut(u32, Held) -> bool>(&self, words: &[[u8; 8]], first: u64, visit: &mut Visit<'_, F>) -> bool {
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

    /// How many values of instance attributes there are: as they say themselves (3.13), or one for each name that the class
    /// shares, in whose order they stand.
    fn value_count(&self, kind: &PyType, values: u64) -> u64 {
        let count = match self.objects.shape.dict.capacity {
            Some(at) => self.source.word(values).map(|head| head >> (8 * (at & 7)) & 0xff),
            None => self.dict_keys(kind.shared_keys).map(|keys| keys.count),
        };
        count.unwrap_or(0)
    }

    /// Where an instance has its attributes.
    #[inline(always)]
    fn managed(&self, at: u64, kind: &PyType) -> Managed {
        let before = |offset: i64| self.source.word(at.wrapping_add_signed(offset));
        self.objects.managed(at, kind.flags, kind.basicsize, before)
    }

    /// Instances of variable size have their dict behind the items: its offset is from the end.
    fn dict_at_end<F: FnMut(u32, Held) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        kind: &PyType,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        // Where the dict stands before the instance it says -1 (3.12 on).
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

    /// The data of an array of numpy, where they are its own.
    fn data_of_ndarray(&self, words: &[[u8; 8]], value: u64) -> Special {
        match super::fields::ndarray(self.objects, words) {
            Some(array) if array.owns => {
                Special::Memory(Owned { kind: OwnedKind::ArrayData, at: value, bytes: array.bytes })
            }
            Some(_) => Special::Nothing,
            None => Special::Word,
        }
    }
}

/// What a word is.
enum Special {
    Word,
    /// The same, with bits that are no part of the address.
    Tagged,
    Memory(Owned),
    Nothing,
}

/// Items that stand in a row.
#[inline(always)]
fn each_word<F: FnMut(u32, Held) -> bool>(words: &[[u8; 8]], first: u64, count: u64, visit: &mut Visit<'_, F>) -> bool {
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let items = words.iter().take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate().skip(first);
    for (index, item) in items {
        if !visit.item(index as u64, u64::from_le_bytes(*item)) {
            return false;
        }
    }
    true
}

//! Attributes of instances: in a dict, or as values beside keys that all instances of a class share (PEP 412).

use super::{Objects, flags};
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// Bits of a pointer to a dict or values that say which it is.
const TAGS: u64 = 7;

/// Where an instance has its attributes.
enum Attributes {
    Dict(Addr),
    /// The first value, with the keys of the class.
    Values(Addr),
}

impl Objects<'_> {
    /// The attribute `name` in an instance itself, not of its class; slots are none of these.
    pub fn attribute(&self, object: Addr, name: &str) -> Option<Addr> {
        let kind = self.type_of(object)?;
        match self.attributes(object, kind)? {
            Attributes::Dict(dict) => self.lookup(dict, name),
            Attributes::Values(values) => {
                let keys = self.dict_keys(self.ptr_at(kind, self.shape.types.cached_keys)?)?;
                let is = |index: &u64| {
                    let key = self.memory.ptr(keys.key_at(*index)).ok();
                    key.is_some_and(|key| !key.is_null() && self.is_text(key, name))
                };
                let index = (0..keys.count.min(limits::MAX_PY_LOOKUP)).find(is)?;
                self.ptr_at(values, index.checked_mul(8)?).filter(|value| !value.is_null())
            }
        }
    }

    fn attributes(&self, object: Addr, kind: Addr) -> Option<Attributes> {
        let shape = &self.shape;
        let bits = self.word_at(kind, shape.types.flags)?;
        let place = shape.managed_dict.filter(|_| bits & flags::MANAGED_DICT != 0);
        let Some(place) = place else {
            let offset = u64::try_from(self.word_at(kind, shape.types.dictoffset)? as i64).ok()?;
            let dict = self.ptr_at(object, offset).filter(|dict| offset != 0 && !dict.is_null())?;
            return Some(Attributes::Dict(dict));
        };
        let before = |place: i64| self.memory.ptr(object.checked_offset(place)?).ok();
        let dict = before(place)?;
        if let Some(values) = shape.managed_values {
            let values = before(values)?;
            return match values.is_null() {
                true => (!dict.is_null()).then_some(Attributes::Dict(dict)),
                false => Some(Attributes::Values(self.first_value(values))),
            };
        }
        // 3.12 has the values at the place of the dict, less one.
        if dict.get() & 1 != 0 && shape.dict.capacity.is_none() {
            return Some(Attributes::Values(self.first_value(dict.checked_add(1)?)));
        }
        if dict.is_null() && bits & flags::INLINE_VALUES != 0 {
            let size = self.word_at(kind, shape.types.basicsize)?;
            return Some(Attributes::Values(self.first_value(object.checked_add(size.checked_next_multiple_of(8)?)?)));
        }
        (!dict.is_null()).then_some(Attributes::Dict(Addr::new(dict.get() & !TAGS)))
    }

    /// Whether an object may begin at `at`: its type is one.
    pub fn is_object(&self, at: Addr) -> bool {
        at.is_aligned(8) && self.type_of(at).is_some_and(|kind| self.is_type(kind))
    }

    /// Whether the object at `at` is an int, by its type.
    pub fn is_int(&self, at: Addr) -> bool {
        let bits = self.type_of(at).and_then(|kind| self.word_at(kind, self.shape.types.flags));
        bits.is_some_and(|bits| bits & flags::LONG != 0 && bits & flags::READY != 0)
    }

    /// The text of a str, if there is one.
    pub fn str_at(&self, at: Addr) -> Option<String> {
        self.name(at).filter(|_| self.is_str(at))
    }
}

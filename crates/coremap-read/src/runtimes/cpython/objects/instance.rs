//! Attributes of instances: in a dict, or as values whose names all instances of a class share (PEP 412).

use super::{Objects, flags};
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// Tag bits of a pointer to a dict or values.
const TAGS: u64 = 7;

/// Where an instance with a managed dict has its attributes. Since 3.11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Managed {
    /// The instance has no managed dict.
    Nothing,
    /// In the dict at this address. 0 if there is none yet.
    Dict(u64),
    /// In the PyDictValues at this address. The class has the names.
    Values(u64),
}

impl Objects<'_> {
    /// Finds the attributes of the instance at `at`. `bits` are its type's `tp_flags`. `word` reads a word by its
    /// offset from the object, which is negative.
    #[inline(always)]
    pub(crate) fn managed(&self, at: u64, bits: u64, basicsize: u64, word: impl Fn(i64) -> Option<u64>) -> Managed {
        let shape = &self.shape;
        let place = shape.managed_dict.filter(|_| bits & flags::MANAGED_DICT != 0);
        let Some(place) = place else { return Managed::Nothing };
        let dict = word(place).unwrap_or(0);
        if let Some(place) = shape.managed_values {
            return match word(place).unwrap_or(0) {
                0 => Managed::Dict(dict),
                values => Managed::Values(values),
            };
        }
        // 3.12 stores the values' address minus one in the dict's place.
        if dict & 1 != 0 && shape.dict.capacity.is_none() {
            return Managed::Values(dict.wrapping_add(1));
        }
        // Since 3.13 the values follow the fields. Once the dict is created, it points to them there.
        if dict == 0 && bits & flags::INLINE_VALUES != 0 {
            return Managed::Values(at.wrapping_add(basicsize.next_multiple_of(8)));
        }
        Managed::Dict(dict & !TAGS)
    }

    /// Value of the attribute `name` of an instance itself. Class attributes and slots are not included.
    pub fn attribute(&self, object: Addr, name: &str) -> Option<Addr> {
        let kind = self.type_of(object)?;
        let bits = self.word_at(kind, self.shape.types.flags)?;
        let basicsize = self.word_at(kind, self.shape.types.basicsize)?.min(limits::MAX_PY_BASIC_SIZE);
        let before = |offset: i64| self.memory.peek_u64(object.checked_offset(offset)?).ok();
        match self.managed(object.get(), bits, basicsize, before) {
            Managed::Nothing => {
                let offset = u64::try_from(self.word_at(kind, self.shape.types.dictoffset)? as i64).ok()?;
                let dict = self.ptr_at(object, offset).filter(|dict| offset != 0 && !dict.is_null())?;
                self.lookup(dict, name)
            }
            Managed::Dict(dict) => self.lookup(Some(Addr::new(dict)).filter(|dict| !dict.is_null())?, name),
            Managed::Values(values) => {
                let keys = self.dict_keys(self.ptr_at(kind, self.shape.types.cached_keys)?)?;
                let is = |index: &u64| {
                    let key = self.ptr_at(keys.key_at(*index), 0);
                    key.is_some_and(|key| !key.is_null() && self.is_text(key, name))
                };
                let index = (0..keys.count.min(limits::MAX_PY_LOOKUP)).find(is)?;
                let first = self.first_value(Addr::new(values));
                self.ptr_at(first, index.checked_mul(8)?).filter(|value| !value.is_null())
            }
        }
    }

    /// Whether an object may begin at `at`, judged by its type.
    pub fn is_object(&self, at: Addr) -> bool {
        at.is_aligned(8) && self.type_of(at).is_some_and(|kind| self.is_type(kind))
    }

    /// Whether the object at `at` is an int or an instance of a subclass.
    pub fn is_int(&self, at: Addr) -> bool {
        let bits = self.type_of(at).and_then(|kind| self.word_at(kind, self.shape.types.flags));
        bits.is_some_and(|bits| bits & flags::LONG != 0 && bits & flags::READY != 0)
    }

    /// The text of a str. `None` if the object is not a str.
    pub fn str_at(&self, at: Addr) -> Option<String> {
        self.name(at).filter(|_| self.is_str(at))
    }
}

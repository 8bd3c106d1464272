//! Dicts (Objects/dictobject.c): a hash table of indices and, behind it, entries in the order in which they were made.
//!
//! Keys and values may stand apart: instances of a class share one table of keys (PEP 412), and have their values alone.

use super::Objects;
use crate::addr::Addr;
use crate::limits;

/// `dk_kind`: entries have their hash (`DICT_KEYS_GENERAL`); the others have not.
const GENERAL: u8 = 0;

/// The table of keys of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictKeys {
    /// PyDictKeysObject
    pub address: Addr,
    /// Where the first entry is.
    pub entries: Addr,
    /// Entries that were used at some time.
    pub count: u64,
    /// Bytes of one.
    pub size: u64,
    /// From an entry to its key, and to its value.
    pub key: u64,
    /// From an entry to its value.
    pub value: u64,
    /// Bytes of it all.
    pub bytes: u64,
}

/// An entry of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the order.
    pub index: u64,
    /// The key.
    pub key: Addr,
    /// Where the value's pointer stands.
    pub place: Addr,
    /// The value.
    pub value: Addr,
}

impl DictKeys {
    /// Where the key of an entry stands.
    pub fn key_at(&self, index: u64) -> Addr {
        self.entries.wrapping_add(index.wrapping_mul(self.size)).wrapping_add(self.key)
    }

    /// Where its value stands, unless values stand apart.
    pub fn value_at(&self, index: u64) -> Addr {
        self.entries.wrapping_add(index.wrapping_mul(self.size)).wrapping_add(self.value)
    }
}

impl Objects<'_> {
    /// The table at `keys`; `None` where it can be none.
    pub fn dict_keys(&self, keys: Addr) -> Option<DictKeys> {
        self.dict_keys_in(keys, |offset| self.word_at(keys, offset))
    }

    /// The same of the table whose words `word` tells by their offset, a multiple of 8.
    #[inline(always)]
    pub(crate) fn dict_keys_in(&self, keys: Addr, word: impl Fn(u64) -> Option<u64>) -> Option<DictKeys> {
        let shape = &self.shape.dict;
        let byte = |offset: u64| word(offset & !7).map(|word| (word >> (8 * (offset & 7))) as u8);
        let usable = word(shape.usable)?;
        let count = word(shape.nentries)?;
        let (index_bytes, entry) = match (shape.size, shape.log2_index_bytes, shape.kind) {
            (Some(size), ..) => {
                let slots = word(size)?;
                (slots.checked_mul(index_width(slots))?, shape.entry)
            }
            (None, Some(log2), Some(kind)) => {
                let log2 = byte(log2)?;
                let entry = if byte(kind)? == GENERAL { shape.entry } else { shape.unicode_entry? };
                (1_u64.checked_shl(u32::from(log2)).filter(|_| log2 < 48)?, entry)
            }
            _ => return None,
        };
        let room = count.checked_add(usable)?;
        let entries = keys.checked_add(shape.indices)?.checked_add(index_bytes)?;
        let bytes = room.checked_mul(entry.0)?.checked_add(index_bytes)?.checked_add(shape.indices)?;
        // Of each slot of the table at most two thirds are entries.
        let sane = index_bytes.is_power_of_two() && room <= index_bytes.max(8) && keys.checked_add(bytes).is_some();
        sane.then_some(DictKeys { address: keys, entries, count, size: entry.0, key: entry.1, value: entry.2, bytes })
    }

    /// The first value of the PyDictValues at `values`.
    pub fn first_value(&self, values: Addr) -> Addr {
        values.wrapping_add(self.shape.dict.first_value)
    }

    /// Visit the entries of the dict at `dict` that have a value, at most `most`; `visit` tells whether to go on.
    pub fn each_entry(&self, dict: Addr, most: u64, mut visit: impl FnMut(Entry) -> bool) -> Option<()> {
        let shape = &self.shape.dict;
        let keys = self.dict_keys(self.ptr_at(dict, shape.keys)?)?;
        let values = self.ptr_at(dict, shape.values)?;
        for index in 0..keys.count.min(most) {
            let key = self.ptr_at(keys.key_at(index), 0)?;
            let place = match values.is_null() {
                true => keys.value_at(index),
                false => self.first_value(values).checked_add(index.checked_mul(8)?)?,
            };
            let value = self.ptr_at(place, 0)?;
            if !key.is_null() && !value.is_null() && !visit(Entry { index, key, place, value }) {
                break;
            }
        }
        Some(())
    }

    /// The value under the str `name` in the dict at `dict`.
    pub fn lookup(&self, dict: Addr, name: &str) -> Option<Addr> {
        let mut found = None;
        self.each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
            if self.is_text(entry.key, name) {
                found = Some(entry.value);
            }
            found.is_none()
        });
        found
    }
}

/// Bytes of an index in a table of so many slots, up to 3.10.
fn index_width(slots: u64) -> u64 {
    match slots {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

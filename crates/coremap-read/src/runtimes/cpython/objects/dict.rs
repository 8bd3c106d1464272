//! Dicts (Objects/dictobject.c): a hash table of indices, followed by entries in insertion order.
//!
//! Keys and values may be separate: instances of a class share one key table (PEP 412) and store only values.

use super::Objects;
use crate::addr::Addr;
use crate::limits;

/// `dk_kind` of tables whose entries store a hash (`DICT_KEYS_GENERAL`). Entries of other kinds have none.
const GENERAL: u8 = 0;

/// The key table of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictKeys {
    /// Address of the PyDictKeysObject.
    pub address: Addr,
    /// Address of the first entry.
    pub entries: Addr,
    /// Number of entries ever used, deleted ones included.
    pub count: u64,
    /// Size of an entry in bytes.
    pub size: u64,
    /// Offset of the key in an entry.
    pub key: u64,
    /// Offset of the value in an entry.
    pub value: u64,
    /// Size of the whole table in bytes.
    pub bytes: u64,
}

/// An entry of a dict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index in insertion order.
    pub index: u64,
    /// Address of the key object.
    pub key: Addr,
    /// Address of the pointer to the value.
    pub place: Addr,
    /// Address of the value object.
    pub value: Addr,
}

impl DictKeys {
    /// Address of the pointer to the key of entry `index`.
    pub fn key_at(&self, index: u64) -> Addr {
        self.entries.wrapping_add(index.wrapping_mul(self.size)).wrapping_add(self.key)
    }

    /// Address of the pointer to the value of entry `index`. Not used if values are separate.
    pub fn value_at(&self, index: u64) -> Addr {
        self.entries.wrapping_add(index.wrapping_mul(self.size)).wrapping_add(self.value)
    }
}

impl Objects<'_> {
    /// Reads the key table at `keys`. `None` if it is invalid.
    pub fn dict_keys(&self, keys: Addr) -> Option<DictKeys> {
        self.dict_keys_in(keys, |offset| self.word_at(keys, offset))
    }

    /// Like [`Objects::dict_keys`], reading words through `word` by their offset, a multiple of 8.
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
        // At most two thirds of the hash table's slots are used.
        let sane = index_bytes.is_power_of_two() && room <= index_bytes.max(8) && keys.checked_add(bytes).is_some();
        sane.then_some(DictKeys { address: keys, entries, count, size: entry.0, key: entry.1, value: entry.2, bytes })
    }

    /// Address of the first value of the PyDictValues at `values`.
    pub fn first_value(&self, values: Addr) -> Addr {
        values.wrapping_add(self.shape.dict.first_value)
    }

    /// Visits the entries of the dict at `dict` that have a value, among the first `limit`. `visit` returns whether to
    /// continue.
    pub fn each_entry(&self, dict: Addr, limit: u64, mut visit: impl FnMut(Entry) -> bool) -> Option<()> {
        let shape = &self.shape.dict;
        let keys = self.dict_keys(self.ptr_at(dict, shape.keys)?)?;
        let values = self.ptr_at(dict, shape.values)?;
        for index in 0..keys.count.min(limit) {
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

    /// The value for the string key `name` in the dict at `dict`.
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

/// Bytes per index in a hash table of `slots` slots, up to 3.10.
fn index_width(slots: u64) -> u64 {
    match slots {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

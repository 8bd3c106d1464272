//! Named properties of objects: in the object, in its property array, or in a dictionary.

use crate::runtimes::v8::vm::{MapInfo, Vm, count, smi};

/// Maximum length of a key in characters.
const MAX_KEY: usize = 256;

/// Maximum number of properties of an object that are read.
const MAX_PROPERTIES: u64 = 1 << 16;

/// Size in bytes of a descriptor, and of a dictionary's entry. Both have three words: key, details and value, in either
/// order of the last two.
const ENTRY: u64 = 24;

/// Location of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldAt {
    /// At this offset of the object.
    Object(u64),
    /// At this offset of its property array.
    Array(u64),
}

/// A property in a map's descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// The key: a string or a symbol.
    pub key: u64,
    /// Location of the value. `None` if the value is in the descriptor.
    pub field: Option<FieldAt>,
    /// The value in the descriptor.
    pub value: u64,
}

impl Vm<'_> {
    /// Returns the own properties that a map describes.
    pub(super) fn descriptors(&self, map: u64, info: &MapInfo) -> Vec<Descriptor> {
        let (first, in_object) = (u64::from(info.properties), u64::from(info.words.saturating_sub(info.properties)));
        if info.is_dictionary() || info.properties > info.words {
            return Vec::new();
        }
        let Some(array) = self.object(map, self.offsets.map_descriptors) else { return Vec::new() };
        let words = self.words(array.wrapping_add(self.offsets.descriptors), 3 * info.descriptors());
        let one = |entry: &[u64; 3]| {
            let [key, details, value] = *entry;
            let details = smi(details)? as u64;
            let index = details >> 19 & 1023;
            // Bit 5: the value is in the descriptor. Bit 0: the property is an accessor.
            let field = (details >> 5 & 1 == 0 && details & 1 == 0).then(|| {
                if index < in_object {
                    FieldAt::Object(8 * (first + index))
                } else {
                    FieldAt::Array(16 + 8 * (index - in_object))
                }
            });
            Some(Descriptor { key: super::vm::strong(key)?, field, value })
        };
        words.as_chunks::<3>().0.iter().filter_map(one).collect()
    }

    /// Returns the value of a property, as a word.
    pub(super) fn value(&self, object: u64, descriptor: &Descriptor) -> Option<u64> {
        match descriptor.field {
            Some(FieldAt::Object(offset)) => self.field(object, offset),
            Some(FieldAt::Array(offset)) => self.field(self.object(object, self.offsets.properties)?, offset),
            None => Some(descriptor.value),
        }
    }

    /// Returns the number of words before the first entry of a name dictionary: numbers of elements and deleted ones,
    /// capacity, prefix.
    fn dictionary_start(&self) -> u64 {
        let prefix = self.constants.get("namedictionaryshape_prefix_size").and_then(|n| u64::try_from(n).ok());
        3 + prefix.unwrap_or(3).min(8)
    }

    /// Visits the entries of a name dictionary, with the offset of the value, until `visit` returns false.
    pub(super) fn each_entry(&self, dictionary: u64, visit: &mut dyn FnMut(u64, u64) -> bool) {
        let words = self.field(dictionary, 8).and_then(count).unwrap_or(0).min(3 * MAX_PROPERTIES);
        let start = self.dictionary_start();
        for i in 0..words.saturating_sub(start) / 3 {
            let at = 16 + 8 * start + ENTRY * i;
            let key = self.object(dictionary, at).filter(|key| self.is_key(*key));
            if key.is_some_and(|key| !visit(key, at + 8)) {
                return;
            }
        }
    }

    /// Returns the key of the value at `offset` of a name dictionary.
    pub(super) fn key_at(&self, dictionary: u64, offset: u64) -> Option<u64> {
        let from = offset.checked_sub(16 + 8 * self.dictionary_start())?;
        (from % ENTRY == 8).then(|| self.object(dictionary, offset - 8)).flatten().filter(|key| self.is_key(*key))
    }

    fn is_key(&self, key: u64) -> bool {
        self.is_string(key) || self.is(key, "SYMBOL")
    }

    /// Returns the text of a key: a string, or `Symbol(...)`.
    pub(super) fn key_text(&self, key: u64) -> Option<String> {
        if self.is_string(key) {
            return self.text(key, MAX_KEY);
        }
        let name = self.object(key, 16).filter(|name| self.is_string(*name)).and_then(|name| self.text(name, MAX_KEY));
        self.is(key, "SYMBOL").then(|| format!("Symbol({})", name.unwrap_or_default()))
    }

    /// Visits the own properties of an object with their values, as words.
    pub(super) fn each_property(&self, object: u64, visit: &mut dyn FnMut(u64, Option<u64>)) {
        let Some((map, info)) = self.map_of(object) else { return };
        if !info.is_dictionary() {
            self.descriptors(map, &info).iter().for_each(|property| visit(property.key, self.value(object, property)));
            return;
        }
        if let Some(dictionary) = self.object(object, self.offsets.properties) {
            self.each_entry(dictionary, &mut |key, at| {
                visit(key, self.field(dictionary, at));
                true
            });
        }
    }

    /// Returns the value of an own property by its name, as a word.
    pub(super) fn own(&self, object: u64, name: &str) -> Option<u64> {
        let (map, info) = self.map_of(object)?;
        let is_it = |key: u64| self.key_text(key).is_some_and(|text| text == name);
        if !info.is_dictionary() {
            let all = self.descriptors(map, &info);
            let found = all.iter().find(|descriptor| is_it(descriptor.key))?;
            return self.value(object, found);
        }
        let dictionary = self.object(object, self.offsets.properties)?;
        let mut found = None;
        self.each_entry(dictionary, &mut |key, at| {
            if is_it(key) {
                found = self.field(dictionary, at);
            }
            found.is_none()
        });
        found
    }
}

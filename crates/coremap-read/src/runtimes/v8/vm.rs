//! A V8 of a process: its constants, form, pages and isolates, and reads of its structures.
//!
//! A tagged word is an address plus 1. A weak reference is an address plus 3. A small integer (Smi) has its number in
//! the upper half. Objects contain the program's data, so all reads here are looks ([`Memory::peek`]).

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::memory::{Memory, ProcessMemory};
use crate::process::Process;
use crate::runtimes::v8::constants::Constants;
use crate::runtimes::v8::forms::Form;
use crate::runtimes::v8::isolates::Isolate;
use crate::runtimes::v8::pages::{self, Page};

/// Returns the object that a tagged word references strongly.
pub(super) fn strong(word: u64) -> Option<u64> {
    (word & 3 == 1).then(|| word - 1)
}

/// Returns the object that a tagged word references strongly or weakly.
pub(super) fn reference(word: u64) -> Option<u64> {
    (word & 1 == 1).then_some(word & !3)
}

/// Returns the number in a Smi.
pub(super) fn smi(word: u64) -> Option<i64> {
    (word & 1 == 0).then(|| word.cast_signed() >> 32)
}

/// Returns the number in a Smi that counts something.
pub(super) fn count(word: u64) -> Option<u64> {
    smi(word).and_then(|n| u64::try_from(n).ok())
}

/// Fields of a Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapInfo {
    /// Instance type of the objects that the map describes.
    pub instance_type: u16,
    /// Size of these objects in words. 0 if it varies.
    pub words: u8,
    /// Offset of the first in-object property, in words.
    pub properties: u8,
    pub bit_field2: u8,
    pub bit_field3: u32,
}

impl MapInfo {
    /// Number of descriptors that belong to it.
    pub(super) fn descriptors(&self) -> u64 {
        u64::from(self.bit_field3 >> 10 & 1023)
    }

    /// Whether it belongs to a prototype.
    pub(super) fn is_prototype(&self) -> bool {
        self.bit_field3 >> 20 & 1 != 0
    }

    /// Whether properties are in a dictionary.
    pub(super) fn is_dictionary(&self) -> bool {
        self.bit_field3 >> 21 & 1 != 0
    }
}

/// Offsets of fields in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub map_words: u64,
    pub map_properties: u64,
    pub map_type: u64,
    pub map_bit_field2: u64,
    pub map_bit_field3: u64,
    pub map_prototype: u64,
    pub map_constructor: u64,
    pub map_descriptors: u64,
    pub descriptors: u64,
    pub properties: u64,
    pub elements: u64,
    pub oddball_kind: u64,
    pub function_shared: u64,
    pub function_context: u64,
    pub shared_name: u64,
    pub shared_script: u64,
    pub script_name: u64,
    pub script_source: u64,
    pub buffer_store: u64,
    pub buffer_length: u64,
    pub bytecodes: u64,
    pub string_length: u64,
}

impl Offsets {
    /// Reads the offsets. The error is the name of the constant that is missing.
    pub(super) fn new(constants: &Constants) -> Result<Offsets, String> {
        let field = |class: &str, names: &[&str]| {
            let found = names.iter().find_map(|name| constants.field(class, name));
            found.ok_or_else(|| format!("v8dbg_class_{class}__{}", names.first().copied().unwrap_or_default()))
        };
        Ok(Offsets {
            map_words: field("Map", &["instance_size_in_words"])?,
            map_properties: field("Map", &["inobject_properties_start_or_constructor_function_index"])?,
            map_type: field("Map", &["instance_type"])?,
            map_bit_field2: field("Map", &["bit_field2"])?,
            map_bit_field3: field("Map", &["bit_field3"])?,
            map_prototype: field("Map", &["prototype"])?,
            map_constructor: field("Map", &["constructor_or_back_pointer"])?,
            map_descriptors: field("Map", &["instance_descriptors"])?,
            descriptors: field("DescriptorArray", &["header_size"])?,
            properties: field("JSReceiver", &["raw_properties_or_hash"])?,
            elements: field("JSObject", &["elements"])?,
            oddball_kind: field("Oddball", &["kind", "kind_offset"])?,
            function_shared: field("JSFunction", &["shared"])?,
            function_context: field("JSFunction", &["context"])?,
            shared_name: field("SharedFunctionInfo", &["name_or_scope_info"])?,
            shared_script: field("SharedFunctionInfo", &["script", "script_or_debug_info", "raw_script"])?,
            script_name: field("Script", &["name"])?,
            script_source: field("Script", &["source"])?,
            buffer_store: field("JSArrayBuffer", &["backing_store"])?,
            buffer_length: field("JSArrayBuffer", &["byte_length"])?,
            bytecodes: field("BytecodeArray", &["data"])?,
            string_length: field("String", &["length"])?,
        })
    }
}

/// Instance types by name.
#[derive(Default)]
pub(super) struct Types {
    by_name: HashMap<String, u16>,
    by_number: HashMap<u16, String>,
}

impl Types {
    pub(super) fn add(&mut self, name: &str, number: u16) {
        self.by_name.entry(name.to_owned()).or_insert(number);
        self.by_number.entry(number).or_insert_with(|| name.to_owned());
    }

    pub(super) fn get(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    pub(super) fn is(&self, number: u16, name: &str) -> bool {
        self.get(name) == Some(number)
    }

    pub(super) fn name(&self, number: u16) -> Option<&str> {
        self.by_number.get(&number).map(String::as_str)
    }
}

/// Largest number up to which a double has every integer.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// First instance type that is no string.
pub(super) const FIRST_NONSTRING: u16 = 128;

/// A V8, and the layout of its memory.
pub(super) struct Vm<'p> {
    pub process: &'p Process,
    pub memory: &'p ProcessMemory,
    /// Index of the module that contains it.
    pub module: usize,
    pub path: String,
    /// Addresses of that module.
    pub range: AddrRange,
    pub version: [u32; 4],
    pub constants: Constants,
    pub form: &'static Form,
    pub offsets: Offsets,
    pub types: Types,
    /// The instance type of maps.
    pub map_type: u16,
    /// First and last number of the types of functions.
    pub functions: (u16, u16),
    /// First number of the types of JavaScript objects.
    pub first_object: u16,
    /// First and last number of the types of contexts.
    pub contexts: (u16, u16),
    /// Pages, sorted by address.
    pub pages: Vec<Page>,
    pub isolates: Vec<Isolate>,
    /// Unit of the sizes in free space, in bytes.
    pub free_unit: u64,
}

impl<'p> Vm<'p> {
    /// Name and version, for messages.
    pub(super) fn name(&self) -> String {
        let [major, minor, build, patch] = self.version;
        format!("V8 {major}.{minor}.{build}.{patch} in {}", self.path)
    }

    pub(super) fn word(&self, at: u64) -> Option<u64> {
        self.memory.peek_u64(Addr::new(at)).ok()
    }

    pub(super) fn half(&self, at: u64) -> Option<u32> {
        self.memory.peek_u32(Addr::new(at)).ok()
    }

    /// Returns the word at `offset` of the object at `object`.
    pub(super) fn field(&self, object: u64, offset: u64) -> Option<u64> {
        self.word(object.checked_add(offset)?)
    }

    /// Returns the object that the field at `offset` references strongly.
    pub(super) fn object(&self, object: u64, offset: u64) -> Option<u64> {
        strong(self.field(object, offset)?)
    }

    /// Returns up to `limit` words at `at`, as far as they can be read.
    pub(super) fn words(&self, at: u64, limit: u64) -> Vec<u64> {
        let at = Addr::new(at);
        let have = self.memory.readable(at, limit.saturating_mul(8)) & !7;
        let Ok(bytes) = self.memory.look(at, usize::try_from(have).unwrap_or(0)) else { return Vec::new() };
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// Returns `len` bytes at `at`.
    pub(super) fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        self.memory.look(Addr::new(at), usize::try_from(len).ok()?).ok()
    }

    /// Returns the page whose area contains `addr`.
    pub(super) fn page_of(&self, addr: u64) -> Option<&Page> {
        self.pages.get(pages::index_of(&self.pages, addr)?)
    }

    /// Reads a map. `None` if `map` is not one: its own map must describe maps.
    pub(super) fn map(&self, map: u64) -> Option<MapInfo> {
        if map & 7 != 0 {
            return None;
        }
        self.page_of(map)?;
        let of_map = strong(self.word(map)?)?;
        let info = self.map_fields(map)?;
        // The map of maps describes itself.
        let meta = if of_map == map { info.instance_type } else { self.map_fields(of_map)?.instance_type };
        (meta == self.map_type).then_some(info)
    }

    fn map_fields(&self, map: u64) -> Option<MapInfo> {
        let words = [self.word(map.checked_add(8)?)?, self.word(map.checked_add(16)?)?];
        let byte = |offset: u64| -> Option<u8> {
            let word = words.get(usize::try_from(offset.checked_sub(8)? / 8).ok()?)?;
            word.to_le_bytes().get(usize::try_from(offset % 8).ok()?).copied()
        };
        let at = &self.offsets;
        let pair = |offset: u64| Some([byte(offset)?, byte(offset + 1)?]);
        let [low, high] = [pair(at.map_bit_field3)?, pair(at.map_bit_field3 + 2)?];
        Some(MapInfo {
            instance_type: u16::from_le_bytes(pair(at.map_type)?),
            words: byte(at.map_words)?,
            properties: byte(at.map_properties)?,
            bit_field2: byte(at.map_bit_field2)?,
            bit_field3: u32::from(u16::from_le_bytes(low)) | u32::from(u16::from_le_bytes(high)) << 16,
        })
    }

    /// Returns the count that is in a Smi, or in a HeapNumber without a fraction.
    pub(super) fn number(&self, word: u64) -> Option<u64> {
        if let Some(number) = count(word) {
            return Some(number);
        }
        let at = strong(word).filter(|at| self.is(*at, "HEAP_NUMBER"))?;
        let value = f64::from_bits(self.field(at, 8)?);
        (value.fract() == 0.0 && (0.0..MAX_EXACT).contains(&value)).then_some(value as u64)
    }

    /// Returns the map of the object at `object`.
    pub(super) fn map_of(&self, object: u64) -> Option<(u64, MapInfo)> {
        let map = strong(self.word(object).filter(|_| object & 7 == 0)?)?;
        Some((map, self.map(map)?))
    }

    /// Returns the instance type of the object at `object`.
    pub(super) fn type_of(&self, object: u64) -> Option<u16> {
        self.map_of(object).map(|(_, info)| info.instance_type)
    }

    /// Whether the object at `object` has the instance type with this name.
    pub(super) fn is(&self, object: u64, name: &str) -> bool {
        self.types.get(name).is_some_and(|number| self.type_of(object) == Some(number))
    }

    /// Whether the object at `object` is a string.
    pub(super) fn is_string(&self, object: u64) -> bool {
        self.type_of(object).is_some_and(|number| number < FIRST_NONSTRING)
    }

    pub(super) fn is_function_type(&self, number: u16) -> bool {
        (self.functions.0..=self.functions.1).contains(&number)
    }

    /// Whether the object at `object` is a function.
    pub(super) fn is_function(&self, object: u64) -> bool {
        self.type_of(object).is_some_and(|number| self.is_function_type(number))
    }

    pub(super) fn is_context_type(&self, number: u16) -> bool {
        (self.contexts.0..=self.contexts.1).contains(&number)
    }

    /// Returns the type number of native contexts. It is the eighth context type in all versions.
    pub(super) fn native_context(&self) -> u16 {
        self.contexts.0.saturating_add(7)
    }

    /// Returns the type number of script contexts, which follows the one of native contexts.
    pub(super) fn script_context(&self) -> u16 {
        self.contexts.0.saturating_add(8)
    }

    /// Name of a space by its number.
    pub(super) fn space_name(&self, number: u8) -> &'static str {
        self.form.spaces.get(usize::from(number)).copied().unwrap_or("unknown_space")
    }

    /// Whether a page belongs to a single large object.
    pub(super) fn is_large(&self, page: &Page) -> bool {
        self.space_name(page.space).contains("large_object")
    }

    /// Returns the word in the table of roots for the map of a type. It is the same in the tables of all isolates.
    pub(super) fn root(&self, name: &str) -> Option<u64> {
        let index = self.form.maps.iter().find(|(map, _)| *map == name)?.1;
        let slot = self.isolates.first()?.roots.checked_add(8 * index)?;
        self.word(slot.get())
    }

    /// Index of the isolate with this heap.
    pub(super) fn isolate_of(&self, heap: Addr) -> Option<usize> {
        self.isolates.iter().position(|isolate| isolate.heap == heap)
    }
}

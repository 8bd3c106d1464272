//! The `v8dbg_` constants that V8 exports: offsets of fields, numbers of types, tags and frame types.
//!
//! V8's tools/gen-postmortem-metadata.py generates them for postmortem debuggers. Node.js exports them from its program
//! or from libnode. They are 32-bit numbers in `.data`. Only their names need the program's file.

use std::collections::BTreeMap;

use crate::image::elf::ElfImage;
use crate::image::symbols;
use crate::limits;
use crate::memory::Memory;
use crate::native::symbols::exported_with_prefix;

/// Prefix of the names.
const PREFIX: &str = "v8dbg_";

/// Variables with V8's version: major, minor, build, patch.
const VERSION: [&str; 4] = [
    "_ZN2v88internal7Version6major_E",
    "_ZN2v88internal7Version6minor_E",
    "_ZN2v88internal7Version6build_E",
    "_ZN2v88internal7Version6patch_E",
];

/// Whether an image exports V8's constants.
pub(super) fn exported_by(memory: &dyn Memory, image: &ElfImage) -> bool {
    symbols::find(memory, image, "v8dbg_HeapObjectTag").is_some()
}

/// Reads V8's version.
pub(super) fn version(memory: &dyn Memory, image: &ElfImage) -> Option<[u32; 4]> {
    let mut out = [0; 4];
    for (part, name) in out.iter_mut().zip(VERSION) {
        *part = memory.u32(symbols::find(memory, image, name)?.addr).ok()?;
    }
    Some(out)
}

/// Constants by name, without the prefix.
pub(super) struct Constants {
    values: BTreeMap<String, i64>,
}

impl Constants {
    /// Reads the constants that an image exports.
    pub(super) fn read(memory: &dyn Memory, image: &ElfImage) -> Constants {
        let named = exported_with_prefix(memory, image, PREFIX);
        let value = |(name, at)| Some((name, i64::from(memory.u32(at).ok()?.cast_signed())));
        Constants { values: named.into_iter().filter_map(value).take(limits::MAX_V8_CONSTANTS).collect() }
    }

    /// Makes constants from pairs, for tests.
    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, i64)]) -> Constants {
        Constants { values: pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect() }
    }

    /// Number of constants.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<i64> {
        self.values.get(name).copied()
    }

    /// Offset of a field in bytes. The constant's name ends in the field's C++ type, which differs by version.
    pub(super) fn field(&self, class: &str, field: &str) -> Option<u64> {
        let name = format!("class_{class}__{field}");
        let typed = format!("{name}__");
        let exact = self.values.get(&name).copied();
        let found = exact.or_else(|| {
            let mut from = self.values.range(typed.clone()..);
            from.next().filter(|(name, _)| name.starts_with(&typed)).map(|(_, value)| *value)
        });
        u64::try_from(found?).ok().filter(|offset| *offset < limits::MAX_V8_FIELD_OFFSET)
    }

    /// Instance types, with their names without `_TYPE`: `JS_ARRAY`.
    pub(super) fn types(&self) -> impl Iterator<Item = (&str, u16)> {
        let types = self.values.range("type_".to_owned()..).take_while(|(name, _)| name.starts_with("type_"));
        types.filter_map(|(name, value)| {
            let name = name.split_once("__")?.1;
            Some((name.strip_suffix("_TYPE").unwrap_or(name), u16::try_from(*value).ok()?))
        })
    }

    /// Types of stack frames, with their names: `InterpretedFrame`.
    pub(super) fn frame_types(&self) -> impl Iterator<Item = (&str, u64)> {
        let prefix = "frametype_";
        let types = self.values.range(prefix.to_owned()..).take_while(move |(name, _)| name.starts_with(prefix));
        types.filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, u64::try_from(*value).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as V8 11.3 and 13.6 export them.
    #[test]
    fn a_field_is_found_whatever_its_type_is() {
        let old = Constants::of(&[("class_Map__prototype__HeapObject", 24), ("class_Map__prototype_info__Object", 64)]);
        let new = Constants::of(&[("class_Map__prototype__Tagged_JSPrototype_", 24)]);
        assert_eq!(old.field("Map", "prototype"), Some(24));
        assert_eq!(new.field("Map", "prototype"), Some(24));
        assert_eq!(new.field("Map", "proto"), None);
        let untyped = Constants::of(&[("class_Map__instance_descriptors_offset", 40)]);
        assert_eq!(untyped.field("Map", "instance_descriptors_offset"), Some(40));
        assert_eq!(Constants::of(&[("class_Map__prototype__Object", -8)]).field("Map", "prototype"), None);
    }

    #[test]
    fn types_and_frame_types_have_their_own_names() {
        let all = Constants::of(&[("type_JSArray__JS_ARRAY_TYPE", 2119), ("frametype_ExitFrame", 3), ("zzz", 1)]);
        assert_eq!(all.types().collect::<Vec<_>>(), [("JS_ARRAY", 2119)]);
        assert_eq!(all.frame_types().collect::<Vec<_>>(), [("ExitFrame", 3)]);
    }
}

//! Fields of types: name, offset, type.
//!
//! Sources: docs/design/datacontracts/RuntimeTypeSystem.md (FieldDesc); src/coreclr/vm: field.h (FieldDesc), class.h
//! (EEClass, PackedDWORDFields).

use crate::addr::Addr;
use crate::bytes::{u32_at, u64_at};
use crate::image::metadata::sig::{FieldSig, Type};
use crate::image::metadata::{Table, Token};
use crate::layout::ViewError;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::types::{ModuleInfo, TypeSystem};
use crate::words::FieldStorage;

/// Bits of the two words after a FieldDesc's MethodTable.
mod bits {
    pub(super) const RID: u32 = 0x00ff_ffff;
    pub(super) const STATIC: u32 = 1 << 24;
    pub(super) const THREAD_STATIC: u32 = 1 << 25;
    pub(super) const RVA: u32 = 1 << 26;
    pub(super) const OFFSET: u32 = (1 << 27) - 1;
    pub(super) const TYPE_SHIFT: u32 = 27;
}

/// CorElementType (ECMA-335 II.23.1.16).
const VALUE_TYPE: u8 = 0x11;
const CLASS: u8 = 0x12;

/// Bytes of an object's MethodTable, which precedes its first field.
pub(in crate::runtimes::coreclr) const METHOD_TABLE: u64 = 8;

/// Bits with the length of a packed field, minus one (packedfields.inl).
const LENGTH_BITS: u32 = 5;

/// Indices of field counts in EEClass's packed fields (class.h, EEClassFieldId), up to .NET 8.
mod packed {
    pub(super) const INSTANCE_FIELDS: u32 = 0;
    pub(super) const STATIC_FIELDS: u32 = 2;
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDesc {
    /// Address of the FieldDesc.
    pub address: Addr,
    /// MethodTable of the declaring type, as passed by the caller.
    pub method_table: Addr,
    /// Token in the Field table.
    pub token: Token,
    /// Where the value is stored.
    pub storage: FieldStorage,
    /// Offset in bytes: in an object from its start, in a value type from the value's start, for statics from their
    /// base.
    pub offset: u64,
    /// CorElementType. CLASS for all references.
    pub element: u8,
}

impl FieldDesc {
    /// Whether a static field of this type is stored among the references: objects, and value types, which are boxed.
    pub fn is_object(&self) -> bool {
        matches!(self.element, VALUE_TYPE | CLASS)
    }

    fn read(address: Addr, method_table: Addr, bytes: &[u8], words: (usize, usize)) -> Option<FieldDesc> {
        let (first, second) = (u32_at(bytes, words.0)?, u32_at(bytes, words.1)?);
        let storage = if first & bits::STATIC == 0 {
            FieldStorage::Instance
        } else if first & bits::THREAD_STATIC != 0 {
            FieldStorage::ThreadStatic
        } else if first & bits::RVA != 0 {
            FieldStorage::Image
        } else {
            FieldStorage::Static
        };
        Some(FieldDesc {
            address,
            method_table,
            token: Token::new(Table::Field, first & bits::RID),
            storage,
            offset: u64::from(second & bits::OFFSET),
            element: (second >> bits::TYPE_SHIFT) as u8,
        })
    }
}

impl<'p> TypeSystem<'p> {
    /// Fields that a MethodTable's type declares itself. Offsets of instance fields count from the value's start,
    /// without an object's MethodTable.
    ///
    /// # Errors
    /// If they are not in the core.
    pub fn own_fields(&self, method_table: Addr) -> Result<Vec<FieldDesc>, ViewError> {
        if self.is_continuation(method_table) {
            return Ok(Vec::new());
        }
        let class = self.ee_class(method_table)?;
        let (instance, statics) = self.field_counts(class)?;
        let parent = self.parent(method_table)?;
        let inherited = if parent.is_null() { 0 } else { self.field_counts(self.ee_class(parent)?)?.0 };
        let count = instance.saturating_sub(inherited).saturating_add(statics).min(limits::MAX_FIELDS);
        let list = self.view("EEClass", class).ptr("FieldDescList")?;
        if list.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        let layout = &self.runtime.layout;
        let size = layout.size("FieldDesc")?.clamp(1, 64) as usize;
        let word = |name| layout.positive("FieldDesc", name).map(|o| o as usize);
        let words = (word("DWord1")?, word("DWord2")?);
        let bytes =
            self.memory.bytes(list, count as usize * size).map_err(ViewError::fault("EEClass", "FieldDescList"))?;
        let descs = bytes.chunks_exact(size).enumerate();
        Ok(descs
            .filter_map(|(i, d)| FieldDesc::read(list.saturating_add((i * size) as u64), method_table, d, words))
            .collect())
    }

    /// Instance fields of a MethodTable's objects, including inherited ones, by offset from the object's start.
    /// Unreadable fields are left out.
    pub fn object_fields(&self, method_table: Addr) -> Vec<FieldDesc> {
        let mut out = Vec::new();
        for at in self.bases(method_table) {
            let own = self.own_fields(at).unwrap_or_default();
            out.extend(
                own.into_iter()
                    .filter(|f| f.storage == FieldStorage::Instance)
                    .map(|f| FieldDesc { offset: f.offset + METHOD_TABLE, ..f }),
            );
        }
        out.sort_by_key(|f| (f.offset, f.token.0));
        out
    }

    /// A MethodTable and its base types, as far as they are in the core.
    pub fn bases(&self, method_table: Addr) -> Vec<Addr> {
        let mut out = Vec::new();
        let walks = Walks::new(Phase::Types, limits::MAX_TYPE_NESTING);
        let end = walks.begin_own_set().follow(method_table, |at| {
            out.push(at);
            self.parent(at)
        });
        // A base that is missing or repeats ends the list, as System.Object does.
        end.ok();
        out
    }

    /// MethodTable of the base type; 0 if there is none.
    ///
    /// # Errors
    /// If it is not in the core.
    pub fn parent(&self, method_table: Addr) -> Result<Addr, ViewError> {
        let view = self.view("MethodTable", method_table);
        let parent = view.ptr("ParentMethodTable")?;
        let Ok(indirect) = self.runtime.layout.constant("MTFlags", "HasIndirectParent") else {
            return Ok(parent);
        };
        if parent.is_null() || u64::from(view.u32("MTFlags")?) & indirect == 0 {
            return Ok(parent);
        }
        self.memory.ptr(parent).map_err(ViewError::fault("MethodTable", "ParentMethodTable"))
    }

    /// Number of instance fields, including inherited ones, and of static fields, including thread statics.
    fn field_counts(&self, class: Addr) -> Result<(u32, u32), ViewError> {
        let view = self.view("EEClass", class);
        if view.has("NumInstanceFields") {
            return Ok((u32::from(view.u16("NumInstanceFields")?), u32::from(view.u16("NumStaticFields")?)));
        }
        // Up to .NET 8, the counts follow the EEClass, in 32 bits each or packed.
        let packed = view.u8("FieldsArePacked")? != 0;
        let at = class.saturating_add(u64::from(view.u8("FixedFieldBytes")?));
        let have = self.memory.readable(at, limits::MAX_PACKED_FIELDS as u64) as usize;
        let bytes = self.memory.bytes(at, have).unwrap_or_default();
        let number = |i: u32| {
            if packed { unpack(&bytes, i) } else { u32_at(&bytes, 4 * i as usize) }.ok_or_else(|| ViewError::Fault {
                kind: "EEClass".into(),
                field: "packed fields".into(),
                fault: crate::memory::Fault { addr: at, kind: crate::memory::FaultKind::NotDumped },
            })
        };
        Ok((number(packed::INSTANCE_FIELDS)?, number(packed::STATIC_FIELDS)?))
    }

    /// Name of a field; its token if there is no metadata.
    pub fn field_name(&self, field: &FieldDesc) -> String {
        let module = self.module_of(field.method_table).map(|m| self.module(m));
        let name = module.ok().and_then(|m| Some(m.metadata.as_ref()?.field(field.token.rid())?.name.into_owned()));
        name.unwrap_or_else(|| field.token.to_string())
    }

    pub(in crate::runtimes::coreclr) fn field_signature(
        &self,
        module: &ModuleInfo<'p>,
        field: &FieldDesc,
    ) -> Option<Type> {
        let row = module.metadata.as_ref()?.field(field.token.rid())?;
        FieldSig::parse(row.signature).ok().map(|s| s.ty)
    }

    /// MethodTable for a token in a module's TypeDef or TypeRef map.
    pub(super) fn mapped_type(&self, module: Addr, token: Token) -> Option<Addr> {
        let map = match token.table()? {
            Table::TypeDef => "TypeDefToMethodTableMap",
            Table::TypeRef => "TypeRefToMethodTableMap",
            _ => return None,
        };
        let first = self.view("Module", module).addr_of(map).ok()?;
        let mut index = u64::from(token.rid());
        let mut found = None;
        let walks = Walks::new(Phase::Types, limits::MAX_LOOKUP_MAPS);
        let end = walks.begin_cycle_only().follow(first, |at| {
            let view = self.view("ModuleLookupMap", at);
            let count = u64::from(view.u32("Count")?);
            if index < count {
                let flags = view.u64("SupportedFlagsMask").unwrap_or(0);
                let slot = view.ptr("TableData")?.saturating_add(8 * index);
                found = self.memory.ptr(slot).ok().map(|at| at.masked(!flags)).filter(|at| !at.is_null());
                return Ok(Addr::NULL);
            }
            index -= count;
            view.ptr("Next")
        });
        // If the map breaks off, the token is not found.
        end.ok();
        found
    }

    /// All MethodTables in a module's TypeDef map: its loaded types, and generic types as definitions.
    pub(in crate::runtimes::coreclr) fn mapped_type_defs(&self, module: Addr) -> Vec<Addr> {
        let mut out = Vec::new();
        let Ok(first) = self.view("Module", module).addr_of("TypeDefToMethodTableMap") else { return out };
        let walks = Walks::new(Phase::Types, limits::MAX_LOOKUP_ROWS);
        let end = walks.begin_own_set().at_most(limits::MAX_LOOKUP_MAPS).follow(first, |at| {
            let view = self.view("ModuleLookupMap", at);
            let (count, data) = match (view.u32("Count"), view.ptr("TableData")) {
                (Ok(count), Ok(data)) => (count, data),
                (Err(e), _) | (_, Err(e)) => return Err(e.to_string()),
            };
            let flags = view.u64("SupportedFlagsMask").unwrap_or(0);
            let size = u64::from(count).min(limits::MAX_INSTANTIATIONS as u64) * 8;
            let bytes = self.memory.bytes(data, self.memory.readable(data, size) as usize).unwrap_or_default();
            walks.spend(data, bytes.len() as u64 / 8).map_err(|e| e.to_string())?;
            let words = bytes.as_chunks::<8>().0.iter().map(|w| Addr::new(u64::from_le_bytes(*w) & !flags));
            out.extend(words.filter(|a| !a.is_null()));
            view.ptr("Next").map_err(|e| e.to_string())
        });
        // A broken map yields the types up to there.
        end.ok();
        out
    }
}

/// Reads the number at `index` in packed fields. Each has its length minus one in 5 bits, followed by its bits.
fn unpack(bytes: &[u8], index: u32) -> Option<u32> {
    let mut at = 0;
    for i in 0..=index {
        let len = bit_field(bytes, at, LENGTH_BITS)? + 1;
        at += LENGTH_BITS;
        if i == index {
            return bit_field(bytes, at, len);
        }
        at += len;
    }
    None
}

/// Reads up to 32 bits at bit `at`.
fn bit_field(bytes: &[u8], at: u32, len: u32) -> Option<u32> {
    let from = (at / 8) as usize;
    // Within the last 8 bytes, read from a copy padded with zeros.
    let word = u64_at(bytes, from).or_else(|| {
        let rest = bytes.get(from..).filter(|rest| rest.len() as u32 * 8 >= at % 8 + len)?;
        let mut padded = [0; 8];
        padded.get_mut(..rest.len())?.copy_from_slice(rest);
        Some(u64::from_le_bytes(padded))
    })?;
    Some((word >> (at % 8) & ((1 << len) - 1)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(first: u32, second: u32) -> Option<FieldDesc> {
        let mut bytes = vec![0xee; 8];
        bytes.extend(first.to_le_bytes());
        bytes.extend(second.to_le_bytes());
        FieldDesc::read(Addr::new(0x10), Addr::new(0x20), &bytes, (8, 12))
    }

    #[test]
    fn bits_of_a_field() {
        // String's three fields in 10.0.14: _stringLength, _firstChar, Empty.
        let all: Vec<_> = [(0x0800_02e4, 0x4000_0000), (0x0800_02e5, 0x1800_0004), (0x3100_02e3, 0x9000_0000)]
            .into_iter()
            .filter_map(|(a, b)| desc(a, b))
            .map(|f| (f.token.rid(), f.storage, f.offset, f.element))
            .collect();
        assert_eq!(
            all,
            [
                (0x2e4, FieldStorage::Instance, 0, 8),
                (0x2e5, FieldStorage::Instance, 4, 3),
                (0x2e3, FieldStorage::Static, 0, 0x12)
            ]
        );
        assert_eq!(desc(0x0300_0001, 0).map(|f| f.storage), Some(FieldStorage::ThreadStatic));
        assert_eq!(desc(0x0500_0001, 0).map(|f| f.storage), Some(FieldStorage::Image));
        assert_eq!(desc(1, u32::MAX).map(|f| (f.offset, f.element)), Some((0x07ff_ffff, 0x1f)));
        assert_eq!(FieldDesc::read(Addr::NULL, Addr::NULL, &[0; 15], (8, 12)), None);
    }

    #[test]
    fn numbers_that_are_packed() {
        // 5 bits of length less one, then the number: 2 in 2 bits, 265 in 9, 1 in 1.
        let bits = [(1_u64, 5), (2, 2), (8, 5), (265, 9), (0, 5), (1, 1)];
        let (word, _) = bits.iter().fold((0, 0), |(word, at), (value, len)| (word | value << at, at + len));
        let bytes = word.to_le_bytes();
        assert_eq!([0, 1, 2].map(|i| unpack(&bytes[..4], i)), [Some(2), Some(265), Some(1)]);
        assert_eq!(unpack(&bytes[..1], 1), None);
        assert_eq!(unpack(&[], 0), None);
        assert_eq!(unpack(&[0xff; 8], 0), Some(u32::MAX));
    }
}

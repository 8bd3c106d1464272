//! Addresses of static fields, and names of enumeration values.
//!
//! Sources: docs/design/datacontracts/RuntimeTypeSystem.md (GetGCStaticsBasePointer); src/coreclr/vm/methodtable.h:
//! DynamicStaticsInfo, which precedes a MethodTable's auxiliary data; enum_flag_DynamicStatics. Up to .NET 8:
//! appdomain.hpp (DomainLocalModule), enum_flag_StaticsMask.

use crate::addr::Addr;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::image::metadata::{Table, Token};
use crate::layout::StructView;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::types::{FieldDesc, FieldStorage, HAS_COMPONENT_SIZE, TypeSystem};

/// MTFlags2: the MethodTable has DynamicStaticsInfo.
const DYNAMIC_STATICS: u32 = 2;

/// MTFlags up to .NET 8: storage of statics (enum_flag_StaticsMask). Types with a component size don't have these bits.
const STATICS_KIND: u32 = 6;

/// Mask of the address. The other bits say whether the type is initialized.
const STATICS_MASK: u64 = !1;

/// Statics of a generic type (enum_flag_StaticsMask_Generics).
const STATICS_GENERIC: u32 = 4;

/// MTFlags2: slots in the struct or after the vtable (enum_flag_MultipurposeSlotsMask).
const MULTIPURPOSE_SLOTS: u32 = 0x1f;

/// ClassInitFlags: the statics of an entry are objects that a loader allocator keeps alive.
const COLLECTIBLE: u32 = 8;

/// Offset of an array's first element.
const ARRAY_DATA: u64 = 16;

/// TLSIndex (threadstatics.h): where a type's thread statics are stored, and the index or offset there.
const TLS_KIND_SHIFT: u32 = 24;
const TLS_OFFSET: u32 = 0x00ff_ffff;
const TLS_IN_ARRAY: u32 = 0;
const TLS_COLLECTIBLE: u32 = 1;
const TLS_DIRECT: u32 = 2;
/// NUMBER_OF_TLSOFFSETS_NOT_USED_IN_NONCOLLECTIBLE_ARRAY
const TLS_OFFSETS_BEFORE_ARRAY: u64 = 2;

/// MTFlags: the category of types that have an element type of their own.
const CATEGORY: u32 = 0x000f_0000;
const PRIMITIVE: u32 = 0x0006_0000;
const TRUE_PRIMITIVE: u32 = 0x0007_0000;

/// FieldAttributes.Literal (II.23.1.5): a constant.
const LITERAL: u16 = 0x40;

impl TypeSystem<'_> {
    /// Address of a static field's value. `None` if it has none yet, or if it can't be located in this version. For
    /// thread statics see [`TypeSystem::thread_static_address`].
    pub fn static_address(&self, field: &FieldDesc) -> Option<Addr> {
        match field.storage {
            FieldStorage::Static => {}
            FieldStorage::Image => return self.rva_static(field),
            FieldStorage::Instance | FieldStorage::ThreadStatic => return None,
        }
        let view = self.view("MethodTable", field.method_table);
        let is_object = field.is_object();
        if self.runtime.layout.field("Module", "DomainLocalModule").is_ok() {
            return self.module_static(field, is_object);
        }
        let size = self.runtime.layout.size("DynamicStaticsInfo").ok()?;
        if view.u32("MTFlags2").ok()? & DYNAMIC_STATICS == 0 {
            return None;
        }
        let info = self.view("DynamicStaticsInfo", view.ptr("AuxiliaryData").ok()?.saturating_sub(size));
        let base = info.u64(if is_object { "GCStatics" } else { "NonGCStatics" }).ok()? & STATICS_MASK;
        (base != 0).then(|| Addr::new(base).saturating_add(field.offset))
    }

    /// Static fields of a module's loaded types, including instantiations of generic types. `left` is the remaining
    /// number of fields to read. If it becomes 0, some types were left out.
    pub fn static_fields(&self, module: Addr, left: &mut usize) -> Vec<FieldDesc> {
        let defined = self.mapped_type_defs(module).into_iter();
        let made = self.instantiations(module);
        let instances = made.values().flatten().map(|&(method_table, _)| method_table);
        let mut out = Vec::new();
        for method_table in defined.chain(instances) {
            if *left == 0 {
                break;
            }
            let own = self.own_fields(method_table).unwrap_or_default();
            *left = left.saturating_sub(own.len());
            out.extend(own.into_iter().filter(|f| f.storage != FieldStorage::Instance));
            if out.len() >= limits::MAX_STATICS {
                *left = 0;
            }
        }
        out
    }

    /// Up to .NET 8, all statics of a module are in one block, except for generic types.
    fn module_static(&self, field: &FieldDesc, is_object: bool) -> Option<Addr> {
        let statics = self.domain_local_module(field.method_table)?;
        let view = self.view("DomainLocalModule", statics);
        let base = match self.dynamic_entry(field.method_table, &view)? {
            None if is_object => view.ptr("GCStatics").ok()?,
            None => statics,
            Some((_, flags)) if flags & COLLECTIBLE != 0 => return None,
            Some((entry, _)) if is_object => self.memory.ptr(entry).ok()?,
            Some((entry, _)) => entry,
        };
        (!base.is_null()).then(|| base.saturating_add(field.offset))
    }

    /// DomainLocalModule of the module that stores a type's statics.
    fn domain_local_module(&self, method_table: Addr) -> Option<Addr> {
        let module = self.view("Module", self.loader_module(method_table)?);
        module.ptr("DomainLocalModule").ok().filter(|a| !a.is_null())
    }

    /// Up to .NET 8: entry of a generic type in a module's table of statics, with its flags. `Some(None)` if the type
    /// is not generic. `None` if it has no statics yet, or is from Reflection.Emit.
    fn dynamic_entry(&self, method_table: Addr, table: &StructView<'_>) -> Option<Option<(Addr, u32)>> {
        let view = self.view("MethodTable", method_table);
        let flags = view.u32("MTFlags").ok()?;
        match flags & STATICS_KIND {
            _ if flags & HAS_COMPONENT_SIZE != 0 => return None,
            0 => return Some(None),
            STATICS_GENERIC => {}
            _ => return None,
        }
        // GenericsStaticsInfo is the first optional member. The vtable's chunks of 8 slots precede it, and the
        // multipurpose slots that are not in the struct.
        let chunks = u64::from(view.u16("NumVirtuals").ok()?).div_ceil(8);
        let slots = (u32::from(view.u16("MTFlags2").ok()?) & MULTIPURPOSE_SLOTS).count_ones().saturating_sub(2);
        let info = method_table
            .saturating_add(self.runtime.layout.size("MethodTable").ok()?)
            .saturating_add((chunks + u64::from(slots)) * 8);
        let id = self.view("GenericsStaticsInfo", info).u64("DynamicTypeID").ok()?;
        if id >= table.u64("DynamicEntries").ok()? {
            return None;
        }
        let size = self.runtime.layout.size("DynamicClassInfo").ok()?;
        let at = table.ptr("DynamicClassTable").ok()?.checked_add(id.checked_mul(size)?)?;
        let class = self.view("DynamicClassInfo", at);
        let entry = class.ptr("Entry").ok().filter(|e| !e.is_null())?;
        Some(Some((entry, class.u32("Flags").ok()?)))
    }

    /// Address of a thread's value of a thread static. `None` if the thread has no value yet and would see the default.
    pub fn thread_static_address(&self, field: &FieldDesc, thread: Addr) -> Option<Addr> {
        if field.storage != FieldStorage::ThreadStatic {
            return None;
        }
        let view = self.view("Thread", thread);
        let base = if view.has("TLMTable") {
            self.thread_module_base(field, &view)?
        } else {
            self.thread_index_base(field, &view)?
        };
        Some(base.saturating_add(field.offset))
    }

    /// Up to .NET 8: by module, as for other statics, but references are in an array.
    fn thread_module_base(&self, field: &FieldDesc, thread: &StructView<'_>) -> Option<Addr> {
        let domain = self.view("DomainLocalModule", self.domain_local_module(field.method_table)?);
        let index = domain.u64("ModuleIndex").ok()?;
        if index >= thread.u64("TLMTableSize").ok()? {
            return None;
        }
        let slot = thread.ptr("TLMTable").ok()?.checked_add(index.checked_mul(8)?)?;
        let statics = self.memory.ptr(slot).ok().filter(|a| !a.is_null())?;
        let view = self.view("ThreadLocalModule", statics);
        let handle = match self.dynamic_entry(field.method_table, &view)? {
            None if field.is_object() => view.ptr("GCStatics").ok()?,
            None => return Some(statics),
            Some((_, flags)) if flags & COLLECTIBLE != 0 => return None,
            Some((entry, _)) if field.is_object() => self.memory.ptr(entry).ok()?,
            Some((entry, _)) => return Some(entry),
        };
        let array = self.memory.ptr(handle).ok().filter(|a| !handle.is_null() && !a.is_null())?;
        Some(array.saturating_add(ARRAY_DATA))
    }

    /// From .NET 9 on: by an index of the type (docs/design/datacontracts/Thread.md, GetThreadLocalStaticBase).
    fn thread_index_base(&self, field: &FieldDesc, thread: &StructView<'_>) -> Option<Addr> {
        let size = self.runtime.layout.size("ThreadStaticsInfo").ok()?;
        let auxiliary = self.view("MethodTable", field.method_table).ptr("AuxiliaryData").ok()?;
        let info = self.view("ThreadStaticsInfo", auxiliary.saturating_sub(size));
        let index = info.u32(if field.is_object() { "GCTlsIndex" } else { "NonGCTlsIndex" }).ok()?;
        if index == u32::MAX {
            return None;
        }
        let data = self.view("ThreadLocalData", thread.ptr("ThreadLocalDataPtr").ok().filter(|a| !a.is_null())?);
        let offset = u64::from(index & TLS_OFFSET);
        let object = match index >> TLS_KIND_SHIFT {
            TLS_IN_ARRAY if offset < u64::from(data.u32("NonCollectibleTlsDataCount").ok()?) => {
                let array = data.ptr("NonCollectibleTlsArrayData").ok().filter(|a| !a.is_null())?;
                let element = offset.checked_sub(TLS_OFFSETS_BEFORE_ARRAY)?;
                self.memory.ptr(array.saturating_add(ARRAY_DATA + element * 8)).ok()
            }
            TLS_COLLECTIBLE if offset < u64::from(data.u32("CollectibleTlsDataCount").ok()?) => {
                let handles = data.ptr("CollectibleTlsArrayData").ok().filter(|a| !a.is_null())?;
                let handle = self.memory.ptr(handles.saturating_add(offset * 8)).ok().filter(|h| !h.is_null());
                handle.and_then(|h| self.memory.ptr(h).ok())
            }
            TLS_DIRECT => return Some(data.addr.saturating_add(offset)),
            _ => None,
        };
        // Field offsets count from the object's start.
        object.filter(|o| !o.is_null()).or_else(|| self.in_flight(&data, index))
    }

    /// Thread statics of a type whose class constructor is still running.
    fn in_flight(&self, data: &StructView<'_>, index: u32) -> Option<Addr> {
        let mut found = None;
        let walks = Walks::new(Phase::References, limits::MAX_IN_FLIGHT);
        let end = walks.begin_cycle_only().follow(data.ptr("InFlightData").ok()?, |at| {
            let view = self.view("InFlightTLSData", at);
            if view.u32("TlsIndex")? == index {
                found = self.memory.ptr(view.ptr("TLSData")?).ok().filter(|o| !o.is_null());
                return Ok(Addr::NULL);
            }
            view.ptr("Next")
        });
        // If the list breaks off, the static is not found.
        end.ok();
        found
    }

    /// Address of a static stored in the module's image.
    fn rva_static(&self, field: &FieldDesc) -> Option<Addr> {
        let module = self.module(self.module_of(field.method_table).ok()?);
        module.rva_address(module.metadata.as_ref()?.field_rva(field.token.rid())?)
    }

    /// Element type of a MethodTable that is a number or an enumeration. `None` for others.
    pub fn primitive_of(&self, method_table: Addr) -> Option<u8> {
        self.of_category(method_table, &[PRIMITIVE, TRUE_PRIMITIVE])
    }

    /// Element type of a MethodTable that is a number. `None` for others, including enumerations.
    pub fn number_of(&self, method_table: Addr) -> Option<u8> {
        self.of_category(method_table, &[TRUE_PRIMITIVE])
    }

    fn of_category(&self, method_table: Addr, categories: &[u32]) -> Option<u8> {
        let category = self.view("MethodTable", method_table).u32("MTFlags").ok()? & CATEGORY;
        if !categories.contains(&category) {
            return None;
        }
        let class = self.ee_class(method_table).ok()?;
        self.view("EEClass", class).u8("InternalCorElementType").ok()
    }

    /// Text of an enumeration's value with the name of its constant. With FlagsAttribute it names the constants that
    /// combine to the value, as Enum.ToString does.
    pub fn enum_text(&self, method_table: Addr, value: &str) -> Option<String> {
        let module = self.module(self.module_of(method_table).ok()?);
        let metadata = module.metadata.as_ref()?;
        let token = self.type_token(method_table).ok()?;
        let row = metadata.type_def(token.rid())?;
        let constants = metadata.field_rids(row.fields).take(limits::MAX_FIELDS as usize).filter_map(|rid| {
            let field = metadata.field(rid).filter(|f| f.flags & LITERAL != 0)?;
            let constant = metadata.constant(Token::new(Table::Field, rid))?;
            Some((constant_text(constant.element_type, constant.value)?, field.name.into_owned()))
        });
        let constants: Vec<(String, String)> = constants.collect();
        if let Some((_, name)) = constants.iter().find(|(text, _)| text == value) {
            return Some(format!("{value} ({name})"));
        }
        metadata.has_attribute(token, "System.FlagsAttribute").then_some(())?;
        let names = flags_of(bits(value)?, constants.iter().map(|(text, name)| (bits(text).unwrap_or(0), &**name)))?;
        Some(format!("{value} ({names})"))
    }
}

/// The bits of a number given as text.
fn bits(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
}

/// Names of the flags that combine to a value, in order of value. `None` if bits are left over.
fn flags_of<'n>(value: u64, constants: impl Iterator<Item = (u64, &'n str)>) -> Option<String> {
    let mut constants: Vec<(u64, &str)> = constants.filter(|c| c.0 != 0).collect();
    constants.sort_by_key(|c| c.0);
    let (mut rest, mut names) = (value, Vec::new());
    for (bits, name) in constants.into_iter().rev() {
        if rest & bits == bits {
            rest &= !bits;
            names.push(name);
        }
    }
    names.reverse();
    (rest == 0 && !names.is_empty()).then(|| names.join(", "))
}

/// A numeric constant as text (II.22.9).
fn constant_text(element: u8, value: &[u8]) -> Option<String> {
    Some(match element {
        0x04 => (*value.first()? as i8).to_string(),
        0x02 | 0x05 => value.first()?.to_string(),
        0x06 => (u16_at(value, 0)? as i16).to_string(),
        0x03 | 0x07 => u16_at(value, 0)?.to_string(),
        0x08 => (u32_at(value, 0)? as i32).to_string(),
        0x09 => u32_at(value, 0)?.to_string(),
        0x0a => (u64_at(value, 0)? as i64).to_string(),
        0x0b => u64_at(value, 0)?.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_named_as_enum_to_string_does() {
        // BindingFlags: Instance 4, Static 8, Public 16, NonPublic 32.
        let of =
            |value| flags_of(value, [(4, "Instance"), (8, "Static"), (16, "Public"), (32, "NonPublic")].into_iter());
        assert_eq!(of(4 | 16 | 32).as_deref(), Some("Instance, Public, NonPublic"));
        assert_eq!(of(4 | 64), None);
        assert_eq!(of(0), None);
        // The constant with more bits is taken first.
        let both = flags_of(7, [(1, "Read"), (2, "Write"), (3, "ReadWrite"), (4, "Delete")].into_iter());
        assert_eq!(both.as_deref(), Some("ReadWrite, Delete"));
        assert_eq!(bits("-1"), Some(u64::MAX));
        assert_eq!(bits("x"), None);
    }
}

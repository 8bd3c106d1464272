//! Where static fields are, and what enumerations are made of.
//!
//! docs/design/datacontracts/RuntimeTypeSystem.md (GetGCStaticsBasePointer);
//! src/coreclr/vm/methodtable.h: DynamicStaticsInfo, in front of a
//! MethodTable's auxiliary data; enum_flag_DynamicStatics. Up to .NET 8:
//! appdomain.hpp (DomainLocalModule), enum_flag_StaticsMask.

use crate::addr::Addr;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::dotnet::types::{FieldDesc, Storage, TypeSystem};
use crate::image::metadata::{Table, Token};
use crate::limits;

/// MTFlags2: the MethodTable has DynamicStaticsInfo.
const DYNAMIC_STATICS: u32 = 2;

/// MTFlags up to .NET 8: how statics are kept (enum_flag_StaticsMask), which
/// types with a component size have no bits for.
const STATICS_KIND: u32 = 6;
const HAS_COMPONENT_SIZE: u32 = 0x8000_0000;

/// Where the value is no address: bits that say whether the type is initialized.
const STATICS_MASK: u64 = !1;

/// CorElementType of references, and of value types, whose statics are objects
/// too (ECMA-335 II.23.1.16).
const VALUE_TYPE: u8 = 0x11;
const CLASS: u8 = 0x12;

/// MTFlags: the category of types that have an element type of their own.
const CATEGORY: u32 = 0x000f_0000;
const PRIMITIVE: u32 = 0x0006_0000;
const TRUE_PRIMITIVE: u32 = 0x0007_0000;

/// II.23.1.5: a constant.
const LITERAL: u16 = 0x40;

impl TypeSystem<'_> {
    /// Where a static field's value is; `None` where it has none yet, or that is
    /// not known for this version.
    pub fn static_address(&self, field: &FieldDesc) -> Option<Addr> {
        if field.storage != Storage::Static {
            return None;
        }
        let view = self.view("MethodTable", field.method_table);
        let is_object = matches!(field.element, VALUE_TYPE | CLASS);
        if self.runtime.layout.field("Module", "DomainLocalModule").is_ok() {
            return self.module_static(field, is_object);
        }
        let size = self.runtime.layout.size("DynamicStaticsInfo").ok()?;
        if view.u32("MTFlags2").ok()? & DYNAMIC_STATICS == 0 {
            return None;
        }
        let info = self.view("DynamicStaticsInfo", view.ptr("AuxiliaryData").ok()?.saturating_sub(size));
        let base = info.u64(if is_object { "GCStatics" } else { "NonGCStatics" }).ok()? & STATICS_MASK;
        (base != 0).then(|| Addr(base).saturating_add(field.offset))
    }

    /// Where the static references of a module's loaded types are, but for those of
    /// generic types.
    pub fn static_references(&self, module: Addr) -> Vec<(Addr, FieldDesc)> {
        let info = self.module(module);
        let count = info.metadata.as_ref().map_or(0, |m| m.row_count(Table::TypeDef));
        let mut out = Vec::new();
        for rid in 1..=count {
            let Some(method_table) = self.mapped_type(module, Token::new(Table::TypeDef, rid)) else { continue };
            let own = self.own_fields(method_table).unwrap_or_default();
            let objects = own.iter().filter(|f| matches!(f.element, VALUE_TYPE | CLASS));
            out.extend(objects.filter_map(|f| Some((self.static_address(f)?, *f))));
            if out.len() >= limits::MAX_STATICS {
                break;
            }
        }
        out
    }

    /// Up to .NET 8, statics of all types of a module stand together, but for
    /// those of generic types.
    fn module_static(&self, field: &FieldDesc, is_object: bool) -> Option<Addr> {
        let flags = self.view("MethodTable", field.method_table).u32("MTFlags").ok()?;
        if flags & HAS_COMPONENT_SIZE == 0 && flags & STATICS_KIND != 0 {
            return None;
        }
        let module = self.view("Module", self.module_of(field.method_table).ok()?);
        let statics = module.ptr("DomainLocalModule").ok().filter(|a| a.0 != 0)?;
        let base = if is_object { self.view("DomainLocalModule", statics).ptr("GCStatics").ok()? } else { statics };
        (base.0 != 0).then(|| base.saturating_add(field.offset))
    }

    /// Element type of a MethodTable that is a number or an enumeration; `None` for
    /// others.
    pub fn primitive_of(&self, method_table: Addr) -> Option<u8> {
        let category = self.view("MethodTable", method_table).u32("MTFlags").ok()? & CATEGORY;
        if category != PRIMITIVE && category != TRUE_PRIMITIVE {
            return None;
        }
        let class = self.ee_class(method_table).ok()?;
        self.view("EEClass", class).u8("InternalCorElementType").ok()
    }

    /// Name of the constant of an enumeration that has that value, as text.
    pub fn enum_text(&self, method_table: Addr, value: &str) -> Option<String> {
        let module = self.module(self.module_of(method_table).ok()?);
        let metadata = module.metadata.as_ref()?;
        let row = metadata.type_def(self.type_token(method_table).ok()?.rid())?;
        let name = metadata.field_rids(row.fields).find_map(|rid| {
            let field = metadata.field(rid).filter(|f| f.flags & LITERAL != 0)?;
            let constant = metadata.constant(Token::new(Table::Field, rid))?;
            (constant_text(constant.element_type, constant.value)? == value).then(|| field.name.into_owned())
        })?;
        Some(format!("{value} ({name})"))
    }
}

/// A constant as text (II.22.9); numbers only.
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

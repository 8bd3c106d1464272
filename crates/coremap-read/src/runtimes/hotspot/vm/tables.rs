//! The VM's exported tables, read once.
//!
//! Sources: src/hotspot/share/runtime/vmStructs.cpp, and its reader in the JDK, jdk.hotspot.agent's
//! HotSpotTypeDataBase.java. There are four arrays of rows. Further exported variables give their stride and columns. A
//! row without a name ends an array.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::image::elf::ElfImage;
use crate::image::symbols;
use crate::limits;
use crate::memory::{Fault, Memory};

const POINTER: u8 = 8;

/// Why the VM's structures cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VmError {
    /// libjvm exports no variable of that name, or its symbol table is not in the core.
    #[error("libjvm exports no {0}")]
    MissingExport(String),
    /// The tables have no C++ type of that name.
    #[error("the VM's tables have no type {0}")]
    MissingType(String),
    /// Neither the type nor its superclasses have the field.
    #[error("the VM's tables have no {kind}::{field}")]
    MissingField {
        /// The type.
        kind: String,
        /// The field.
        field: String,
    },
    /// The memory cannot be read.
    #[error("{kind}::{field}: {fault}")]
    Fault {
        /// Type of the struct.
        kind: String,
        /// The field.
        field: String,
        /// The address and the reason.
        fault: Fault,
    },
    /// A value is invalid.
    #[error("{what} at {at}")]
    Invalid {
        /// Description of the problem.
        what: &'static str,
        /// Address of the structure.
        at: Addr,
    },
}

impl VmError {
    /// Whether memory of the VM is damaged or missing. If not, its version is not supported.
    pub fn is_damage(&self) -> bool {
        match self {
            VmError::Fault { .. } | VmError::Invalid { .. } => true,
            VmError::MissingExport(_) | VmError::MissingType(_) | VmError::MissingField { .. } => false,
        }
    }
}

impl VmError {
    /// Makes the error of a fault in `field` of `kind`.
    pub fn fault<'n>(kind: &'n str, field: &'n str) -> impl Fn(Fault) -> VmError + Copy + use<'n> {
        move |fault| VmError::Fault { kind: kind.into(), field: field.into(), fault }
    }
}

/// A field of a C++ type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset in bytes. For a static variable, its address.
    pub location: u64,
    /// Whether it is a static variable.
    pub is_static: bool,
    /// Type in C++ syntax. Empty if the tables hide it.
    pub type_name: String,
    /// Size in bytes of a number or pointer. 0 for structs.
    pub width: u8,
}

#[derive(Clone, Debug, Default)]
struct Type {
    superclass: String,
    size: u64,
    fields: HashMap<String, Field>,
}

/// Types, fields and constants of one VM.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    types: HashMap<String, Type>,
    constants: HashMap<String, i64>,
    /// Whether rows are missing because a table has more than the limit.
    pub capped: bool,
}

struct Exports<'a> {
    memory: &'a dyn Memory,
    image: &'a ElfImage,
}

impl Exports<'_> {
    fn u64(&self, name: &str) -> Result<u64, VmError> {
        let missing = || VmError::MissingExport(name.to_owned());
        let symbol = symbols::find(self.memory, self.image, name).ok_or_else(missing)?;
        self.memory.u64(symbol.addr).map_err(VmError::fault("libjvm", name))
    }

    /// Visits the rows of an array until one has no name. Returns whether the limit ended it.
    ///
    /// `columns` are the names of the columns in the exports of their offsets, the name's column first. `row` gets the
    /// addresses of the columns.
    fn rows<const N: usize>(
        &self,
        array: &str,
        entry: &str,
        columns: [&str; N],
        mut row: impl FnMut([Addr; N]) -> Result<(), Fault>,
    ) -> Result<bool, VmError> {
        let mut at = Addr::new(self.u64(&format!("gHotSpotVM{array}"))?);
        let stride = self.u64(&format!("gHotSpotVM{entry}EntryArrayStride"))?;
        let mut offsets = [0; N];
        for (offset, column) in offsets.iter_mut().zip(columns) {
            *offset = self.u64(&format!("gHotSpotVM{entry}Entry{column}Offset"))?;
        }
        if stride == 0 {
            return Err(VmError::Invalid { what: "a table with rows of length 0", at });
        }
        for _ in 0..limits::MAX_VM_TABLE_ROWS {
            let columns = offsets.map(|offset| at.wrapping_add(offset));
            let named = columns.first().map_or(Ok(Addr::NULL), |&name| self.memory.ptr(name));
            let fault = VmError::fault(array, "row");
            if named.map_err(fault)?.is_null() {
                return Ok(false);
            }
            row(columns).map_err(fault)?;
            at = at.wrapping_add(stride);
        }
        Ok(true)
    }

    fn name(&self, at: Addr) -> Result<String, Fault> {
        let text = self.memory.ptr(at)?;
        if text.is_null() { Ok(String::new()) } else { self.memory.public_text(text, limits::MAX_VM_NAME) }
    }
}

impl Tables {
    /// Reads the tables that `image` exports.
    ///
    /// # Errors
    /// If it exports none, or they cannot be read.
    pub fn read(memory: &dyn Memory, image: &ElfImage) -> Result<Tables, VmError> {
        let exports = Exports { memory, image };
        let mut tables = Tables::default();
        let mut capped =
            exports.rows("Types", "Type", ["TypeName", "SuperclassName", "Size"], |[name, superclass, size]| {
                let entry = tables.types.entry(exports.name(name)?).or_default();
                entry.superclass = exports.name(superclass)?;
                entry.size = memory.u64(size)?;
                Ok(())
            })?;
        let columns = ["TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"];
        capped |=
            exports.rows("Structs", "Struct", columns, |[kind, name, type_name, is_static, offset, address]| {
                let type_name = exports.name(type_name)?;
                let is_static = memory.u32(is_static)? != 0;
                let location = memory.u64(if is_static { address } else { offset })?;
                let width = tables.width(&type_name);
                let field = Field { location, is_static, type_name, width };
                tables.types.entry(exports.name(kind)?).or_default().fields.insert(exports.name(name)?, field);
                Ok(())
            })?;
        for (kind, wide) in [("Int", false), ("Long", true)] {
            let array = format!("{kind}Constants");
            capped |= exports.rows(&array, &format!("{kind}Constant"), ["Name", "Value"], |[name, value]| {
                let number = if wide { memory.u64(value)? as i64 } else { i64::from(memory.u32(value)? as i32) };
                tables.constants.insert(exports.name(name)?, number);
                Ok(())
            })?;
        }
        tables.capped = capped;
        Ok(tables)
    }

    /// Returns the size in bytes of a value: from the type table, otherwise by the C++ ABI of x86_64 and aarch64.
    fn width(&self, type_name: &str) -> u8 {
        let plain = type_name.replace("volatile", "").replace("const", "");
        let plain = plain.trim();
        if plain.ends_with('*') {
            return POINTER;
        }
        match self.types.get(plain).map(|t| t.size) {
            Some(size @ (1 | 2 | 4 | 8)) => size as u8,
            Some(_) => 0,
            None => match plain {
                "bool" | "u1" | "char" | "signed char" | "unsigned char" | "uint8_t" | "CompLevel" => 1,
                "u2" | "jushort" | "int16_t" | "uint16_t" | "short" | "unsigned short" => 2,
                "int" | "uint" | "unsigned" | "unsigned int" | "u4" | "jint" | "juint" | "int32_t" | "uint32_t" => 4,
                "address" | "size_t" | "intptr_t" | "uintptr_t" | "intx" | "uintx" | "jlong" | "julong" | "u8"
                | "int64_t" | "uint64_t" | "oop" | "long" => 8,
                "" => 0,
                // Enumerations are not in the type table, except those stored in a byte.
                _ => 4,
            },
        }
    }

    /// Whether there is a C++ type of that name.
    pub fn has_type(&self, kind: &str) -> bool {
        self.types.contains_key(kind)
    }

    /// Returns the size of a C++ type in bytes.
    ///
    /// # Errors
    /// [`VmError::MissingType`]
    pub fn size_of(&self, kind: &str) -> Result<u64, VmError> {
        let found = self.types.get(kind).filter(|t| t.size != 0);
        found.map(|t| t.size).ok_or_else(|| VmError::MissingType(kind.to_owned()))
    }

    /// Finds a field of a type or of its superclasses.
    ///
    /// # Errors
    /// [`VmError::MissingField`]
    pub fn field(&self, kind: &str, field: &str) -> Result<&Field, VmError> {
        let mut at = kind;
        for _ in 0..limits::MAX_VM_SUPERCLASSES {
            let Some(found) = self.types.get(at) else { break };
            if let Some(field) = found.fields.get(field) {
                return Ok(field);
            }
            at = &found.superclass;
        }
        // The tables list some fields of Thread under JavaThread, where the agent looks for them.
        let listed_below = (kind == "Thread").then(|| self.types.get("JavaThread")?.fields.get(field)).flatten();
        listed_below.ok_or_else(|| VmError::MissingField { kind: kind.to_owned(), field: field.to_owned() })
    }

    /// Whether a type or one of its superclasses has the field.
    pub fn has(&self, kind: &str, field: &str) -> bool {
        self.field(kind, field).is_ok()
    }

    /// Finds a static variable.
    ///
    /// # Errors
    /// [`VmError::MissingField`]
    pub fn static_field(&self, kind: &str, field: &str) -> Result<&Field, VmError> {
        let missing = || VmError::MissingField { kind: kind.to_owned(), field: field.to_owned() };
        self.field(kind, field).ok().filter(|f| f.is_static).ok_or_else(missing)
    }

    /// Returns the offset of a field that is not static.
    ///
    /// # Errors
    /// [`VmError::MissingField`], also if the offset is implausibly large.
    pub fn offset(&self, kind: &str, field: &str) -> Result<u64, VmError> {
        let missing = || VmError::MissingField { kind: kind.to_owned(), field: field.to_owned() };
        let limit = limits::MAX_FIELD_OFFSET.unsigned_abs();
        let found = self.field(kind, field).ok().filter(|f| !f.is_static && f.location <= limit);
        found.map(|f| f.location).ok_or_else(missing)
    }

    /// Returns a constant.
    pub fn constant(&self, name: &str) -> Option<i64> {
        self.constants.get(name).copied()
    }

    /// Iterates over the static variables of a type, with their names.
    pub fn statics(&self, kind: &str) -> impl Iterator<Item = (&str, &Field)> {
        let fields = self.types.get(kind).into_iter().flat_map(|t| &t.fields);
        fields.filter(|(_, f)| f.is_static).map(|(name, f)| (name.as_str(), f))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn type_of(superclass: &str, fields: &[(&str, u64)]) -> Type {
        let field = |location| Field { location, is_static: false, type_name: "int".to_owned(), width: 4 };
        let fields = fields.iter().map(|&(name, location)| (name.to_owned(), field(location))).collect();
        Type { superclass: superclass.to_owned(), size: 16, fields }
    }

    fn tables(types: &[(&str, Type)]) -> Tables {
        let types = types.iter().map(|(name, t)| ((*name).to_owned(), t.clone())).collect();
        Tables { types, ..Tables::default() }
    }

    #[test]
    fn fields_are_inherited() {
        let tables = tables(&[("Base", type_of("", &[("_a", 8)])), ("Derived", type_of("Base", &[("_b", 16)]))]);
        assert_eq!((tables.offset("Derived", "_a"), tables.offset("Derived", "_b")), (Ok(8), Ok(16)));
        assert_eq!(tables.offset("Base", "_b").unwrap_err().to_string(), "the VM's tables have no Base::_b");
    }

    #[test]
    fn types_above_one_another_in_a_cycle_end() {
        let tables =
            tables(&[("One", type_of("Other", &[])), ("Other", type_of("One", &[])), ("Own", type_of("Own", &[]))]);
        assert!(!tables.has("One", "_x") && !tables.has("Own", "_x"));
    }

    #[test]
    fn no_struct_is_as_large_as_half_of_the_address_space() {
        let tables = tables(&[("T", type_of("", &[("_far", 1 << 63), ("_near", 8)]))]);
        assert!(tables.offset("T", "_far").is_err());
        assert_eq!(tables.offset("T", "_near"), Ok(8));
    }

    #[test]
    fn numbers_are_as_wide_as_their_type() {
        let mut tables = tables(&[("CodeBlobKind", type_of("", &[])), ("markWord", type_of("", &[]))]);
        tables.types.get_mut("CodeBlobKind").unwrap().size = 1;
        for (name, width) in [
            ("volatile signed char", 1),
            ("CodeBlobKind", 1),
            ("const size_t", 8),
            ("HeapRegionType::Tag volatile", 4),
            ("Klass*", 8),
            ("u2", 2),
            // A struct.
            ("markWord", 0),
            ("", 0),
        ] {
            assert_eq!(tables.width(name), width, "{name}");
        }
    }
}

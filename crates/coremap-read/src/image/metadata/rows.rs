//! Rows of the tables, each as a struct (ECMA-335 II.22).
//!
//! Row numbers are 1-based. `None` is a missing row, or a row with an offset out of its
//! heap.

use std::borrow::Cow;
use std::ops::Range;

use super::coded::{
    CUSTOM_ATTRIBUTE_TYPE, Coded, HAS_CONSTANT, HAS_CUSTOM_ATTRIBUTE, IMPLEMENTATION, MEMBER_REF_PARENT,
    RESOLUTION_SCOPE, TYPE_DEF_OR_REF,
};
use super::{Metadata, Table, Token};
use crate::limits;

/// Index of the MethodDef column with the first parameter (II.22.26).
const PARAMS: usize = 5;

/// A row of the Module table (II.22.30).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRow<'a> {
    /// File name.
    pub name: Cow<'a, str>,
    /// MVID as stored in the #GUID heap. Each build has a new one.
    pub mvid: [u8; 16],
}

/// A row of the Assembly table (II.22.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly<'a> {
    /// Simple name.
    pub name: Cow<'a, str>,
    /// Major, minor, build, revision.
    pub version: [u16; 4],
    /// Culture. Empty if neutral.
    pub culture: Cow<'a, str>,
    /// AssemblyFlags (II.23.1.2).
    pub flags: u32,
    /// Public key. Empty if there is none.
    pub public_key: &'a [u8],
}

/// A row of the TypeDef table (II.22.37).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDef<'a> {
    /// TypeAttributes (II.23.1.15).
    pub flags: u32,
    /// Name.
    pub name: Cow<'a, str>,
    /// Namespace. Empty for nested types.
    pub namespace: Cow<'a, str>,
    /// Base type. Nil for interfaces and System.Object.
    pub extends: Token,
    /// Positions in the list of fields; see [`Metadata::field_rids`].
    pub fields: Range<u32>,
    /// Positions in the list of methods; see [`Metadata::method_rids`].
    pub methods: Range<u32>,
}

/// A row of the TypeRef table (II.22.38).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRef<'a> {
    /// Scope of the type: a module, an assembly, or the enclosing TypeRef.
    pub scope: Token,
    /// Name.
    pub name: Cow<'a, str>,
    /// Namespace.
    pub namespace: Cow<'a, str>,
}

/// A row of the Field table (II.22.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// FieldAttributes (II.23.1.5).
    pub flags: u16,
    /// Name.
    pub name: Cow<'a, str>,
    /// Signature; see [`super::sig::FieldSig`].
    pub signature: &'a [u8],
}

/// A row of the MethodDef table (II.22.26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodDef<'a> {
    /// RVA of its IL. 0 if it has none.
    pub rva: u32,
    /// MethodImplAttributes (II.23.1.11).
    pub impl_flags: u16,
    /// MethodAttributes (II.23.1.10).
    pub flags: u16,
    /// Name.
    pub name: Cow<'a, str>,
    /// Signature; see [`super::sig::MethodSig`].
    pub signature: &'a [u8],
}

/// A row of the MemberRef table (II.22.25).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRef<'a> {
    /// Type or other owner of the member.
    pub parent: Token,
    /// Name.
    pub name: Cow<'a, str>,
    /// Signature of a method or a field.
    pub signature: &'a [u8],
}

/// A row of the ExportedType table (II.22.14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedType<'a> {
    /// TypeAttributes (II.23.1.15).
    pub flags: u32,
    /// Row of its TypeDef in the other module. Only a hint.
    pub type_def_id: u32,
    /// Name.
    pub name: Cow<'a, str>,
    /// Namespace.
    pub namespace: Cow<'a, str>,
    /// A file, the assembly that it was forwarded to, or the enclosing ExportedType.
    pub implementation: Token,
}

/// A row of the Constant table (II.22.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant<'a> {
    /// ELEMENT_TYPE (II.23.1.16). CLASS is a null reference.
    pub element_type: u8,
    /// Value, as bytes.
    pub value: &'a [u8],
}

/// A row of the GenericParam table (II.22.20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericParam<'a> {
    /// 0-based position.
    pub number: u16,
    /// GenericParamAttributes (II.23.1.7).
    pub flags: u16,
    /// Name.
    pub name: Cow<'a, str>,
}

/// Typed access to the cells of a row.
struct CellReader<'m> {
    metadata: &'m Metadata<'m>,
    table: Table,
    rid: u32,
}

impl<'m> CellReader<'m> {
    fn u32(&self, column: usize) -> Option<u32> {
        self.metadata.cell(self.table, self.rid, column)
    }

    fn u16(&self, column: usize) -> Option<u16> {
        u16::try_from(self.u32(column)?).ok()
    }

    fn str(&self, column: usize) -> Option<Cow<'m, str>> {
        self.metadata.string(self.u32(column)?)
    }

    fn blob(&self, column: usize) -> Option<&'m [u8]> {
        self.metadata.blob(self.u32(column)?)
    }

    fn coded(&self, column: usize, coded: &Coded) -> Option<Token> {
        coded.decode(self.u32(column)?)
    }

    fn version(&self, column: usize) -> Option<[u16; 4]> {
        Some([self.u16(column)?, self.u16(column + 1)?, self.u16(column + 2)?, self.u16(column + 3)?])
    }
}

impl Metadata<'_> {
    fn row(&self, table: Table, rid: u32) -> CellReader<'_> {
        CellReader { metadata: self, table, rid }
    }

    /// Returns the module's own row.
    pub fn module(&self) -> Option<ModuleRow<'_>> {
        let row = self.row(Table::Module, 1);
        Some(ModuleRow { name: row.str(1)?, mvid: self.guid(row.u32(2)?)? })
    }

    /// Returns the assembly whose manifest is in this module.
    pub fn assembly(&self) -> Option<Assembly<'_>> {
        let row = self.row(Table::Assembly, 1);
        Some(Assembly {
            name: row.str(7)?,
            version: row.version(1)?,
            culture: row.str(8)?,
            flags: row.u32(5)?,
            public_key: row.blob(6)?,
        })
    }

    /// Returns a TypeDef.
    pub fn type_def(&self, rid: u32) -> Option<TypeDef<'_>> {
        let row = self.row(Table::TypeDef, rid);
        Some(TypeDef {
            flags: row.u32(0)?,
            name: row.str(1)?,
            namespace: row.str(2)?,
            extends: row.coded(3, &TYPE_DEF_OR_REF)?,
            fields: self.list(Table::TypeDef, rid, 4, Table::FieldPtr, Table::Field)?,
            methods: self.list(Table::TypeDef, rid, 5, Table::MethodPtr, Table::MethodDef)?,
        })
    }

    /// Returns a TypeRef.
    pub fn type_ref(&self, rid: u32) -> Option<TypeRef<'_>> {
        let row = self.row(Table::TypeRef, rid);
        Some(TypeRef { scope: row.coded(0, &RESOLUTION_SCOPE)?, name: row.str(1)?, namespace: row.str(2)? })
    }

    /// Returns a Field.
    pub fn field(&self, rid: u32) -> Option<Field<'_>> {
        let row = self.row(Table::Field, rid);
        Some(Field { flags: row.u16(0)?, name: row.str(1)?, signature: row.blob(2)? })
    }

    /// Returns a MethodDef.
    pub fn method_def(&self, rid: u32) -> Option<MethodDef<'_>> {
        let row = self.row(Table::MethodDef, rid);
        Some(MethodDef {
            rva: row.u32(0)?,
            impl_flags: row.u16(1)?,
            flags: row.u16(2)?,
            name: row.str(3)?,
            signature: row.blob(4)?,
        })
    }

    /// Returns the names of a method's parameters, with their positions: 0 is the return value, 1 the first parameter
    /// after `this`.
    pub fn parameter_names(&self, method_rid: u32) -> Vec<(u16, String)> {
        let first = |rid| self.cell(Table::MethodDef, rid, PARAMS);
        let Some(from) = first(method_rid) else { return Vec::new() };
        let end = method_rid.checked_add(1).and_then(first).unwrap_or(u32::MAX);
        let rows = (from..end.min(self.row_count(Table::Param).saturating_add(1))).take(limits::MAX_VARIABLES);
        rows.filter_map(|rid| {
            let row = self.row(Table::Param, rid);
            Some((row.u16(1)?, row.str(2)?.into_owned()))
        })
        .collect()
    }

    /// Returns a MemberRef.
    pub fn member_ref(&self, rid: u32) -> Option<MemberRef<'_>> {
        let row = self.row(Table::MemberRef, rid);
        Some(MemberRef { parent: row.coded(0, &MEMBER_REF_PARENT)?, name: row.str(1)?, signature: row.blob(2)? })
    }

    /// Returns an ExportedType.
    pub fn exported_type(&self, rid: u32) -> Option<ExportedType<'_>> {
        let row = self.row(Table::ExportedType, rid);
        Some(ExportedType {
            flags: row.u32(0)?,
            type_def_id: row.u32(1)?,
            name: row.str(2)?,
            namespace: row.str(3)?,
            implementation: row.coded(4, &IMPLEMENTATION)?,
        })
    }

    /// Returns the constant of a field, a parameter or a property.
    pub fn constant(&self, owner: Token) -> Option<Constant<'_>> {
        let rid = self.find(Table::Constant, 1, HAS_CONSTANT.encode(owner)?)?;
        let row = self.row(Table::Constant, rid);
        // One byte of type, and one of padding.
        Some(Constant { element_type: (row.u32(0)? & 0xff) as u8, value: row.blob(2)? })
    }

    /// Whether a TypeDef, Field or MethodDef has an attribute with this full name
    /// (II.22.10).
    pub fn has_attribute(&self, owner: Token, name: &str) -> bool {
        let Some(key) = HAS_CUSTOM_ATTRIBUTE.encode(owner) else { return false };
        self.find_all(Table::CustomAttribute, 0, key, limits::MAX_ATTRIBUTES).into_iter().any(|rid| {
            let of = |constructor: Token| match constructor.table()? {
                Table::MemberRef => Some(self.member_ref(constructor.rid())?.parent),
                _ => self.type_of_method(constructor.rid()).map(|t| Token::new(Table::TypeDef, t)),
            };
            let class = self.row(Table::CustomAttribute, rid).coded(1, &CUSTOM_ATTRIBUTE_TYPE).and_then(of);
            class.and_then(|c| self.full_name(c)).is_some_and(|n| n == name)
        })
    }

    /// Returns the RVA of a field's initial value (II.22.18).
    pub fn field_rva(&self, field_rid: u32) -> Option<u32> {
        self.cell(Table::FieldRva, self.find(Table::FieldRva, 1, field_rid)?, 0)
    }

    /// Returns the type that encloses a nested type (II.22.32).
    pub fn enclosing(&self, type_rid: u32) -> Option<u32> {
        self.cell(Table::NestedClass, self.find(Table::NestedClass, 0, type_rid)?, 1)
    }

    /// Returns a generic parameter (II.22.20).
    pub fn generic_param(&self, rid: u32) -> Option<GenericParam<'_>> {
        let row = self.row(Table::GenericParam, rid);
        Some(GenericParam { number: row.u16(0)?, flags: row.u16(1)?, name: row.str(3)? })
    }
}

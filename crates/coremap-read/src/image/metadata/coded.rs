//! Coded indexes: a row of one of several tables.
//!
//! ECMA-335 II.24.2.6; Portable PDB spec for HasCustomDebugInformation.

use super::table::Table;
use super::token::{RID, Token};

/// A kind of coded index, with the table for each tag.
#[derive(Debug, PartialEq, Eq)]
pub struct Coded {
    /// Number of low bits that contain the tag.
    pub bits: u32,
    /// Table of each tag. `None` for an unused tag.
    pub tables: &'static [Option<Table>],
}

impl Coded {
    /// Returns the token for `value`. `None` for an unused tag.
    pub fn decode(&self, value: u32) -> Option<Token> {
        let tag = value & ((1 << self.bits) - 1);
        let table = (*self.tables.get(tag as usize)?)?;
        let rid = value >> self.bits;
        (rid <= RID).then(|| Token::new(table, rid))
    }

    /// Returns the value for `token`. `None` if this kind has no such table.
    pub fn encode(&self, token: Token) -> Option<u32> {
        let table = token.table()?;
        let tag = self.tables.iter().position(|t| *t == Some(table))?;
        token.rid().checked_mul(1 << self.bits)?.checked_add(tag as u32)
    }
}

use Table as T;

/// TypeDefOrRef (II.24.2.6).
pub static TYPE_DEF_OR_REF: Coded = Coded { bits: 2, tables: &[Some(T::TypeDef), Some(T::TypeRef), Some(T::TypeSpec)] };

/// HasConstant (II.24.2.6).
pub static HAS_CONSTANT: Coded = Coded { bits: 2, tables: &[Some(T::Field), Some(T::Param), Some(T::Property)] };

/// HasCustomAttribute (II.24.2.6).
pub static HAS_CUSTOM_ATTRIBUTE: Coded = Coded { bits: 5, tables: CUSTOM_OWNERS.split_at(ATTRIBUTE_OWNERS).0 };

/// HasFieldMarshal (II.24.2.6).
pub static HAS_FIELD_MARSHAL: Coded = Coded { bits: 1, tables: &[Some(T::Field), Some(T::Param)] };

/// HasDeclSecurity (II.24.2.6).
pub static HAS_DECL_SECURITY: Coded =
    Coded { bits: 2, tables: &[Some(T::TypeDef), Some(T::MethodDef), Some(T::Assembly)] };

/// MemberRefParent (II.24.2.6).
pub static MEMBER_REF_PARENT: Coded = Coded {
    bits: 3,
    tables: &[Some(T::TypeDef), Some(T::TypeRef), Some(T::ModuleRef), Some(T::MethodDef), Some(T::TypeSpec)],
};

/// HasSemantics (II.24.2.6).
pub static HAS_SEMANTICS: Coded = Coded { bits: 1, tables: &[Some(T::Event), Some(T::Property)] };

/// MethodDefOrRef (II.24.2.6).
pub static METHOD_DEF_OR_REF: Coded = Coded { bits: 1, tables: &[Some(T::MethodDef), Some(T::MemberRef)] };

/// MemberForwarded (II.24.2.6).
pub static MEMBER_FORWARDED: Coded = Coded { bits: 1, tables: &[Some(T::Field), Some(T::MethodDef)] };

/// Implementation (II.24.2.6).
pub static IMPLEMENTATION: Coded =
    Coded { bits: 2, tables: &[Some(T::File), Some(T::AssemblyRef), Some(T::ExportedType)] };

/// CustomAttributeType (II.24.2.6). Tags 0, 1 and 4 are not used.
pub static CUSTOM_ATTRIBUTE_TYPE: Coded =
    Coded { bits: 3, tables: &[None, None, Some(T::MethodDef), Some(T::MemberRef)] };

/// ResolutionScope (II.24.2.6).
pub static RESOLUTION_SCOPE: Coded =
    Coded { bits: 2, tables: &[Some(T::Module), Some(T::ModuleRef), Some(T::AssemblyRef), Some(T::TypeRef)] };

/// TypeOrMethodDef (II.24.2.6).
pub static TYPE_OR_METHOD_DEF: Coded = Coded { bits: 1, tables: &[Some(T::TypeDef), Some(T::MethodDef)] };

/// HasCustomDebugInformation (Portable PDB spec).
pub static HAS_CUSTOM_DEBUG_INFORMATION: Coded = Coded { bits: 5, tables: CUSTOM_OWNERS };

/// Tables whose rows can have custom attributes, in the order of II.24.2.6, then the five
/// of debug information.
const CUSTOM_OWNERS: &[Option<T>] = &[
    Some(T::MethodDef),
    Some(T::Field),
    Some(T::TypeRef),
    Some(T::TypeDef),
    Some(T::Param),
    Some(T::InterfaceImpl),
    Some(T::MemberRef),
    Some(T::Module),
    Some(T::DeclSecurity),
    Some(T::Property),
    Some(T::Event),
    Some(T::StandAloneSig),
    Some(T::ModuleRef),
    Some(T::TypeSpec),
    Some(T::Assembly),
    Some(T::AssemblyRef),
    Some(T::File),
    Some(T::ExportedType),
    Some(T::ManifestResource),
    Some(T::GenericParam),
    Some(T::GenericParamConstraint),
    Some(T::MethodSpec),
    Some(T::Document),
    Some(T::LocalScope),
    Some(T::LocalVariable),
    Some(T::LocalConstant),
    Some(T::ImportScope),
];

/// Number of these tables without the five of debug information.
const ATTRIBUTE_OWNERS: usize = 22;

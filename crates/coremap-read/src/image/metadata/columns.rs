//! Types of each table's columns.
//!
//! ECMA-335 II.22; the Ptr and Enc tables by CoreCLR's metamodel
//! (src/coreclr/md/inc/metamodelpub.h); tables from 0x30 on by the Portable PDB
//! spec.

use super::coded::{
    CUSTOM_ATTRIBUTE_TYPE, Coded, HAS_CONSTANT, HAS_CUSTOM_ATTRIBUTE, HAS_CUSTOM_DEBUG_INFORMATION, HAS_DECL_SECURITY,
    HAS_FIELD_MARSHAL, HAS_SEMANTICS, IMPLEMENTATION, MEMBER_FORWARDED, MEMBER_REF_PARENT, METHOD_DEF_OR_REF,
    RESOLUTION_SCOPE, TYPE_DEF_OR_REF, TYPE_OR_METHOD_DEF,
};
use super::table::Table;

/// The type of a column.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// 2-byte number.
    U16,
    /// 4-byte number.
    U32,
    /// Offset into #Strings.
    Str,
    /// Index into #GUID.
    Guid,
    /// Offset into #Blob.
    Blob,
    /// Row of one table.
    Rid(Table),
    /// Row of one of several tables.
    Coded(&'static Coded),
}

impl Table {
    /// Columns of the table, in order.
    pub fn columns(self) -> &'static [Column] {
        use Column::{Blob, Coded, Guid, Rid, Str, U16, U32};
        match self {
            Table::Module => const { &[U16, Str, Guid, Guid, Guid] },
            Table::TypeRef => const { &[Coded(&RESOLUTION_SCOPE), Str, Str] },
            Table::TypeDef => {
                const { &[U32, Str, Str, Coded(&TYPE_DEF_OR_REF), Rid(Table::Field), Rid(Table::MethodDef)] }
            }
            Table::FieldPtr => const { &[Rid(Table::Field)] },
            Table::Field => const { &[U16, Str, Blob] },
            Table::MethodPtr => const { &[Rid(Table::MethodDef)] },
            Table::MethodDef => const { &[U32, U16, U16, Str, Blob, Rid(Table::Param)] },
            Table::ParamPtr => const { &[Rid(Table::Param)] },
            Table::Param => const { &[U16, U16, Str] },
            Table::InterfaceImpl => const { &[Rid(Table::TypeDef), Coded(&TYPE_DEF_OR_REF)] },
            Table::MemberRef => const { &[Coded(&MEMBER_REF_PARENT), Str, Blob] },
            Table::Constant => const { &[U16, Coded(&HAS_CONSTANT), Blob] },
            Table::CustomAttribute => const { &[Coded(&HAS_CUSTOM_ATTRIBUTE), Coded(&CUSTOM_ATTRIBUTE_TYPE), Blob] },
            Table::FieldMarshal => const { &[Coded(&HAS_FIELD_MARSHAL), Blob] },
            Table::DeclSecurity => const { &[U16, Coded(&HAS_DECL_SECURITY), Blob] },
            Table::ClassLayout => const { &[U16, U32, Rid(Table::TypeDef)] },
            Table::FieldLayout => const { &[U32, Rid(Table::Field)] },
            Table::StandAloneSig => const { &[Blob] },
            Table::EventMap => const { &[Rid(Table::TypeDef), Rid(Table::Event)] },
            Table::EventPtr => const { &[Rid(Table::Event)] },
            Table::Event => const { &[U16, Str, Coded(&TYPE_DEF_OR_REF)] },
            Table::PropertyMap => const { &[Rid(Table::TypeDef), Rid(Table::Property)] },
            Table::PropertyPtr => const { &[Rid(Table::Property)] },
            Table::Property => const { &[U16, Str, Blob] },
            Table::MethodSemantics => const { &[U16, Rid(Table::MethodDef), Coded(&HAS_SEMANTICS)] },
            Table::MethodImpl => const { &[Rid(Table::TypeDef), Coded(&METHOD_DEF_OR_REF), Coded(&METHOD_DEF_OR_REF)] },
            Table::ModuleRef => const { &[Str] },
            Table::TypeSpec => const { &[Blob] },
            Table::ImplMap => const { &[U16, Coded(&MEMBER_FORWARDED), Str, Rid(Table::ModuleRef)] },
            Table::FieldRva => const { &[U32, Rid(Table::Field)] },
            Table::EncLog => const { &[U32, U32] },
            Table::EncMap => const { &[U32] },
            Table::Assembly => const { &[U32, U16, U16, U16, U16, U32, Blob, Str, Str] },
            Table::AssemblyProcessor => const { &[U32] },
            Table::AssemblyOs => const { &[U32, U32, U32] },
            Table::AssemblyRef => const { &[U16, U16, U16, U16, U32, Blob, Str, Str, Blob] },
            Table::AssemblyRefProcessor => const { &[U32, Rid(Table::AssemblyRef)] },
            Table::AssemblyRefOs => const { &[U32, U32, U32, Rid(Table::AssemblyRef)] },
            Table::File => const { &[U32, Str, Blob] },
            Table::ExportedType => const { &[U32, U32, Str, Str, Coded(&IMPLEMENTATION)] },
            Table::ManifestResource => const { &[U32, U32, Str, Coded(&IMPLEMENTATION)] },
            Table::NestedClass => const { &[Rid(Table::TypeDef), Rid(Table::TypeDef)] },
            Table::GenericParam => const { &[U16, U16, Coded(&TYPE_OR_METHOD_DEF), Str] },
            Table::MethodSpec => const { &[Coded(&METHOD_DEF_OR_REF), Blob] },
            Table::GenericParamConstraint => const { &[Rid(Table::GenericParam), Coded(&TYPE_DEF_OR_REF)] },
            Table::Document => const { &[Blob, Guid, Blob, Guid] },
            Table::MethodDebugInformation => const { &[Rid(Table::Document), Blob] },
            Table::LocalScope => {
                const {
                    &[
                        Rid(Table::MethodDef),
                        Rid(Table::ImportScope),
                        Rid(Table::LocalVariable),
                        Rid(Table::LocalConstant),
                        U32,
                        U32,
                    ]
                }
            }
            Table::LocalVariable => const { &[U16, U16, Str] },
            Table::LocalConstant => const { &[Str, Blob] },
            Table::ImportScope => const { &[Rid(Table::ImportScope), Blob] },
            Table::StateMachineMethod => const { &[Rid(Table::MethodDef), Rid(Table::MethodDef)] },
            Table::CustomDebugInformation => const { &[Coded(&HAS_CUSTOM_DEBUG_INFORMATION), Guid, Blob] },
        }
    }
}

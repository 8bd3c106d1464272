//! Names of types from the program's own metadata, which it has for reflection.
//!
//! The module has a header of its own (`RTR\0`) with sections: a map from MethodTables to their definitions, and the
//! metadata in NativeAOT's own format. Both are read-only: a core without read-only pages has them under `--symbols` alone.
//!
//! src/coreclr/nativeaot: Runtime/inc/ModuleHeaders.h; tools/aot/ILCompiler.Compiler (TypeMetadataMapNode,
//! ExternalReferencesTableNode); Common/src/Internal/NativeFormat (NativeFormatReader.cs: hashtables, numbers);
//! System.Private.CoreLib: Internal/Metadata/NativeFormat (records).

mod format;
mod records;
mod sections;

pub(super) use records::{Kinds, Metadata};
pub(super) use sections::Sections;

#[cfg(test)]
mod tests;

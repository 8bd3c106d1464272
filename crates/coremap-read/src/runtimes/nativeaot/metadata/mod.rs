//! Names of types from the program's own metadata, which exists for reflection.
//!
//! The module has a header (`RTR\0`) with sections. One maps MethodTables to type definitions, one has the metadata in
//! NativeAOT's own format. Both are read-only: for a core without read-only pages, only `--symbols` provides them.
//!
//! Sources: src/coreclr/nativeaot: Runtime/inc/ModuleHeaders.h; tools/aot/ILCompiler.Compiler (TypeMetadataMapNode,
//! ExternalReferencesTableNode); Common/src/Internal/NativeFormat (NativeFormatReader.cs: hashtables, numbers);
//! System.Private.CoreLib: Internal/Metadata/NativeFormat (records).

pub(super) mod format;
mod records;
mod sections;

pub(super) use records::{Kinds, Metadata};
pub(super) use sections::{Sections, relative};

#[cfg(test)]
mod tests;

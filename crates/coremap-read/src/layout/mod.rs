//! Struct layouts as data: bundled tables, a runtime's own descriptor, or the second on top of the first. Code asks for
//! a field by name. docs/layouts.md describes the format.

mod descriptor;
mod json;
mod model;
mod tables;
mod view;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod names_tests;

pub use descriptor::{DESCRIPTOR_MAGIC, DESCRIPTOR_SYMBOL, DescriptorHead, SUB_DESCRIPTOR, read_descriptor};
pub use model::{Global, Layout, LayoutError};
pub use tables::{
    CPYTHON_X64, DOTNET_ARM64, DOTNET_BUNDLE, DOTNET_X64, EVENT_PIPE, GLIBC_MALLOC, GO_RUNTIME, GO_X64, MUSL_MALLOCNG,
    NATIVEAOT, NATIVEAOT_11, NATIVEAOT_BY_HEADER, NATIVEAOT_ENTRIES, NUMPY, Table,
};
pub use view::{StructView, ViewError};

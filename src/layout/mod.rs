//! Struct layouts as data: tables bundled with the program, what a runtime says of
//! itself in its memory, or the one over the other. Code asks for a field by name;
//! docs/layouts.md tells of the form.

mod descriptor;
mod json;
mod model;
mod tables;
mod view;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod names_tests;

pub use descriptor::read_descriptor;
pub use model::{Global, Layout, LayoutError};
pub use tables::{
    CPYTHON_X64, DOTNET_ARM64, DOTNET_BUNDLE, DOTNET_X64, GLIBC_MALLOC, GO_RUNTIME, MUSL_MALLOCNG, NATIVEAOT,
    NATIVEAOT_ENTRIES, NUMPY, Table,
};
pub use view::{StructView, ViewError};

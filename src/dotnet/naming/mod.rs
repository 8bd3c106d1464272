//! Names of types and methods, in each of the forms that .NET's tools show them.

pub(super) mod display_names;
pub(super) mod names;
mod signatures;

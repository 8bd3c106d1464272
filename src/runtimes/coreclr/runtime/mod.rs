//! A runtime in the process: which module it is, which layout fits it, and where
//! its globals are.

mod candidates;
mod detect;
mod globals;

pub use detect::{Detection, Runtime, detect, has_coreclr};
pub(super) use globals::RootsError;

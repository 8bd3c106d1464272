//! Detection of CoreCLR: its module, a layout that fits, and its globals.

mod candidates;
mod detect;
mod globals;

pub(super) use detect::CORECLR;
pub use detect::{Detection, Runtime, detect};
pub(super) use globals::GlobalsError;

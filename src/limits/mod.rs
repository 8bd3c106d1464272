//! Every cap on what a core may make us do, in one room, each with its reason.
//!
//! A core comes from another machine and may be cut, corrupt or made on
//! purpose. No allocation is sized by a number read from it without passing
//! one of these, and every list that is followed in its memory ends here.
//!
//! Callers write `limits::NAME`, whatever file here holds it. What a cap cuts
//! is said in the answer where a reader would take the answer for whole.

mod core;
mod cpython;
mod dotnet;
mod foreign;
mod hotspot;
mod image;
mod native;
mod nativeaot;
mod output;

pub use self::core::*;
pub use cpython::*;
pub use dotnet::*;
pub use foreign::*;
pub use hotspot::*;
pub use image::*;
pub use native::*;
pub use nativeaot::*;
pub use output::*;

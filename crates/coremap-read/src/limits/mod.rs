//! All limits on the work and memory that a core can cause, each with its reason.
//!
//! A core comes from another machine, and may be cut off, corrupt or crafted. No allocation is sized by a number from
//! the core without one of these limits, and each list followed in its memory has one.
//!
//! Callers write `limits::NAME`, without the name of the file below. If a limit makes an answer incomplete, the answer
//! says so.

mod core;
mod cpython;
mod dotnet;
mod foreign;
mod go;
mod hotspot;
mod image;
mod native;
mod nativeaot;
mod output;
mod v8;

pub use self::core::*;
pub use cpython::*;
pub use dotnet::*;
pub use foreign::*;
pub use go::*;
pub use hotspot::*;
pub use image::*;
pub use native::*;
pub use nativeaot::*;
pub use output::*;
pub use v8::*;

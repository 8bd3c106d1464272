//! The readers of coremap: core files and processes, images, allocators, managed runtimes, and what reports are made
//! of.
//!
//! This package is internal to `coremap`, whose commands are built on it. It is
//! published with every release of coremap, at the same version, and its interface changes without notice. Use the
//! modules that `coremap` exports instead.
//!
//! It is a package of its own so that a change in a command doesn't check the readers again (docs/design.md).

#![allow(rustdoc::private_intra_doc_links, reason = "these pages are for those who work on coremap")]
#![allow(unnameable_types, reason = "an internal package exports what `coremap` needs, and no more")]

pub mod addr;
#[doc(hidden)]
pub mod analysis;
#[doc(hidden)]
pub mod bytes;
#[doc(hidden)]
pub mod core;
pub mod diag;
#[doc(hidden)]
pub mod dump;
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod facts;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod image;
#[doc(hidden)]
pub mod introspect;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
#[cfg(target_os = "linux")]
pub mod live;
#[doc(hidden)]
pub mod machine;
pub mod map;
pub mod memory;
#[doc(hidden)]
pub mod native;
#[doc(hidden)]
pub mod phase;
pub mod process;
#[doc(hidden)]
pub mod program;
pub mod progress;
#[doc(hidden)]
pub mod range_map;
#[doc(hidden)]
pub mod registers;
pub mod render;
pub mod report;
#[doc(hidden)]
pub mod resident;
pub mod runtimes;
#[doc(hidden)]
pub mod search;
#[doc(hidden)]
pub mod series;
pub mod session;
#[doc(hidden)]
pub mod shell;
pub mod stacks;
#[doc(hidden)]
pub mod stackwalk;
#[doc(hidden)]
pub mod sums;
#[doc(hidden)]
pub mod symbolicate;
pub mod targets;
#[doc(hidden)]
pub mod units;
#[doc(hidden)]
pub mod words;

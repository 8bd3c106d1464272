//! The GC as it describes itself: segments and regions of its heaps, the handle
//! table, and objects with finalizers.
//!
//! What lies in the segments, object by object, is `heap`'s; who refers to
//! whom is `graph`'s.

pub mod finalizers;
mod handles;
mod read;
mod segment;
pub(super) mod vars;

pub(super) use handles::read as read_handle_table;
pub use handles::{Handle, HandleKind, handles};
pub(super) use read::{GcError, read};
pub use segment::{Generation, Segment};

//! The GC as it describes itself: segments and regions of its heaps, the handle
//! table, and objects with finalizers.
//!
//! What lies in the segments, object by object, and who refers to whom, is `heap`'s.

pub mod finalizers;
mod fit;
mod handles;
mod read;
mod roots;
mod segment;
pub(super) mod vars;

pub(super) use fit::misfit;
pub use handles::{Handle, HandleKind, handles};
pub(super) use handles::{HandleList, SegmentList, read as read_handle_table};
pub(super) use read::{GcError, read};
pub(super) use roots::roots;
pub use segment::{Generation, Segment};

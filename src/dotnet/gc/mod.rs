//! The GC as it describes itself: segments and regions of its heaps, the handle
//! table, and objects with finalizers.
//!
//! NativeAOT has the same GC: what is read here is read of it too, by a layout of its own.
//!
//! What lies in the segments, object by object, and who refers to whom, is `heap`'s.

pub mod finalizers;
mod fit;
mod handles;
mod read;
mod roots;
pub(crate) mod vars;

pub use crate::managed::{Handle, Segment};
pub use crate::words::{Generation, HandleKind};
pub(super) use fit::misfit;
pub use handles::handles;
pub(super) use handles::read as read_handle_table;
pub(crate) use handles::{HandleList, SegmentList, handles_in, segments as handle_segments};
pub(super) use read::GcError;
pub(crate) use read::{GcHeap, read};
pub(super) use roots::roots;

use crate::addr::Addr;
use crate::layout::Layout;
use crate::memory::Memory;

/// A GC as it is read: of CoreCLR, or of NativeAOT.
#[derive(Clone, Copy)]
pub(crate) struct Gc<'a> {
    /// The process's memory.
    pub(crate) memory: &'a dyn Memory,
    /// Its structures.
    pub(crate) layout: &'a Layout,
    /// GcDacVars, where they are known.
    pub(crate) vars: Option<Addr>,
}

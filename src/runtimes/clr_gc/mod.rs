//! The garbage collector of .NET, which CoreCLR and NativeAOT share: segments and regions of its heaps, the handle table,
//! objects with finalizers, and the objects themselves, from one to the next and by their references.
//!
//! It is read by a layout that each runtime supplies. Terms are those of dotnet/runtime, src/coreclr/gc.

mod anatomy;
mod contexts;
pub mod finalizers;
mod gcdesc;
mod handles;
mod heap;
mod read;
mod reader;
pub(crate) mod sink;
pub(crate) mod vars;
mod walk;

pub(crate) use anatomy::forms;
pub use contexts::AllocContext;
pub use gcdesc::References;
pub(crate) use handles::{HandleList, SegmentList, handle_at, handles_in, segments};
pub use heap::MethodTableInfo;
pub(crate) use heap::{ALIGN, COUNT_AT, ClrHeap, MIN_BASE_SIZE, MIN_OBJECT, MethodTables, parts, stride};
pub(crate) use read::{GcError, GcHeap, read};
pub(crate) use reader::{Dependents, Layouts, Reader};

use crate::addr::Addr;
use crate::layout::Layout;
use crate::memory::Memory;

/// A GC as it is read: CoreCLR's or NativeAOT's.
#[derive(Clone, Copy)]
pub(crate) struct Gc<'a> {
    /// The process's memory.
    pub(crate) memory: &'a dyn Memory,
    /// Its structures.
    pub(crate) layout: &'a Layout,
    /// GcDacVars, where they are known.
    pub(crate) vars: Option<Addr>,
}

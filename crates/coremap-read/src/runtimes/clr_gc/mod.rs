//! The garbage collector of .NET, shared by CoreCLR and NativeAOT.
//!
//! Reads the segments and regions of GC heaps, the handle table, the finalizer queues, and the objects with their
//! references. The layout of its structures comes from each runtime. Terms are from dotnet/runtime, src/coreclr/gc.

mod anatomy;
mod contexts;
pub mod finalizers;
mod gc_heap;
mod gcdesc;
mod handles;
mod heap;
pub(crate) mod oom;
mod read;
mod reader;
pub(crate) mod sink;
mod type_roles;
pub(crate) mod vars;
mod walk;

pub(crate) use anatomy::forms;
pub use contexts::AllocContext;
pub use gcdesc::References;
pub(crate) use handles::{HandleList, SegmentList, handle_at, handles_in, lacks_handles, segments};
pub use heap::MethodTableInfo;
pub(crate) use heap::{ALIGN, COUNT_AT, ClrHeap, MIN_BASE_SIZE, MIN_OBJECT, MethodTables, parts, stride};
pub(crate) use read::{FreeRegion, GcError, GcHeap, counted_free_list, read};
pub(crate) use reader::{Dependents, ObjectLayouts, Reader};
pub use type_roles::is_library;
pub(crate) use type_roles::{type_role, with_kind};

use crate::addr::Addr;
use crate::layout::Layout;
use crate::memory::Memory;

/// What the descriptor of NativeAOT has as `RuntimeFlavor`.
pub(crate) const NATIVE_AOT: &str = "NativeAot";

/// Access to the GC of one runtime.
#[derive(Clone, Copy)]
pub(crate) struct Gc<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) layout: &'a Layout,
    /// Address of GcDacVars, if it was found.
    pub(crate) vars: Option<Addr>,
}

//! Sizes of isolated heaps, in runtimes that have several independent ones.

use crate::addr::Addr;

/// A space of an isolate's heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolateSpace {
    /// Name in the runtime's words.
    pub name: &'static str,
    /// Bytes of its pages.
    pub size: u64,
}

/// One isolate: a heap with a thread of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolateSizes {
    /// Name: its part in the process.
    pub name: String,
    /// Address of its heap.
    pub address: Addr,
    /// Number of its heap in [`HeapRange::heap`](crate::runtimes::api::HeapRange).
    pub heap: u32,
    /// System thread that runs it. `None` if unknown.
    pub tid: Option<u32>,
    /// Its spaces, in the runtime's order. Spaces without pages are left out.
    pub spaces: Vec<IsolateSpace>,
    /// Number of distinct buffers outside of the heap that its objects own.
    pub buffers: u64,
    /// Bytes of these buffers.
    pub buffer_bytes: u64,
    /// Bytes reserved for its code and not used.
    pub code_reserve: u64,
}

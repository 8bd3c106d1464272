//! Sessions of a runtime's event log.

use crate::addr::{Addr, AddrRange};

/// An open session of .NET's EventPipe, with the buffers of events that nobody has read yet.
#[derive(Clone, Debug)]
pub struct EventSession {
    /// Address of its buffer manager.
    pub manager: Addr,
    /// Bytes of all buffers, as the runtime counts them.
    pub size: u64,
    /// Most bytes that the buffers may have: what the tool asked for.
    pub limit: u64,
    /// Number of buffers that were full before the one that is written now.
    pub waiting: u64,
    /// Number of threads that wrote events.
    pub writers: u64,
    /// System numbers of those threads that are still there.
    pub threads: Vec<u32>,
    /// Address of each buffer's structure, and its memory.
    pub buffers: Vec<(Addr, AddrRange)>,
}

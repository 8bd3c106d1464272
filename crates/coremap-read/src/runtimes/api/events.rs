//! Sessions of a runtime's event log.

use crate::addr::{Addr, AddrRange};

/// An open session of .NET's EventPipe, with the buffers of events that nobody has read yet.
#[derive(Clone, Debug)]
pub struct EventSession {
    /// Address of its buffer manager.
    pub manager: Addr,
    /// Size of all buffers in bytes, as the runtime counts it.
    pub size: u64,
    /// Maximum size of all buffers in bytes, as the tool requested it.
    pub limit: u64,
    /// Number of full buffers: all but the newest of each list.
    pub waiting: u64,
    /// Number of threads that wrote events.
    pub writers: u64,
    /// System thread IDs of the writers that still exist.
    pub threads: Vec<u32>,
    /// Address of each buffer's structure, and its memory.
    pub buffers: Vec<(Addr, AddrRange)>,
}

//! What a runtime knows of the end of the process.

use crate::addr::Addr;
use crate::facts::ThreadRow;

/// Why a runtime ended the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What was exhausted, with its limit: `the Java heap (limit 64 MiB)`.
    pub what: String,
    /// The structure or function that shows it.
    pub evidence: &'static str,
}

/// The last allocation that failed, as the collector recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAllocation {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Whether it was a large object.
    pub large: bool,
}

/// A failed allocation that the program has caught, and whose exception it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFailure {
    /// The exception.
    pub object: Addr,
    /// Its type.
    pub r#type: String,
    /// Functions of the program that it passed, innermost first.
    pub functions: Vec<String>,
}

/// What a runtime knows of the end of the process, and of allocations that failed before.
pub trait LastWords: Sync {
    /// The failed allocation that a thread reports or throws. `None` if it does neither.
    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory>;

    /// The last allocation that failed. `None` if none did, or if it is not recorded.
    fn failed_allocation(&self) -> Option<FailedAllocation> {
        None
    }

    /// The limit of the managed heap in bytes, if the user gave one that can be read.
    fn heap_limit(&self) -> Option<u64> {
        None
    }

    /// Failed allocations whose exceptions are still on the heap. Exceptions that the runtime made in advance are none.
    fn kept_failures(&self) -> Vec<KeptFailure> {
        Vec::new()
    }

    /// What it knows of a fault at `address` in a managed method: how such code reaches memory, and which field was null.
    fn fault(&self, thread: &ThreadRow, address: Addr) -> Option<String> {
        let _ = (thread, address);
        None
    }
}

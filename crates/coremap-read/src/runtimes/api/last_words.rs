//! A runtime's evidence for the end of the process.

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
    /// Requested size in bytes.
    pub bytes: u64,
    /// Whether the request was for a large object.
    pub large: bool,
}

/// A failed allocation whose exception the program caught and still references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFailure {
    /// The exception.
    pub object: Addr,
    /// Type of the exception.
    pub r#type: String,
    /// Functions of the program that the exception passed, innermost first.
    pub functions: Vec<String>,
}

/// What a runtime wrote just before it ended the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnEnd {
    /// Thread, by its system thread id.
    pub tid: Option<u32>,
    /// The call by which the program ended itself: `Environment.FailFast`. `None` for an exception that nobody handled.
    pub call: Option<&'static str>,
    /// What the program said in that call.
    pub message: Option<String>,
    /// Type and message of the exception. `None` if there was none.
    pub exception: Option<(String, Option<String>)>,
    /// Methods of the exception's stack, innermost first.
    pub stack: Vec<String>,
    /// The structure that has it.
    pub evidence: &'static str,
}

/// A runtime's evidence for the end of the process, and for allocations that failed before.
pub trait LastWords: Sync {
    /// The failed allocation that a thread reports or throws. `None` if it does neither.
    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory>;

    /// What the runtime wrote just before it ended the process. `None` if it did not end it, or writes nothing.
    fn own_end(&self) -> Option<OwnEnd> {
        None
    }

    /// The last allocation that failed. `None` if none did, or if it is not recorded.
    fn failed_allocation(&self) -> Option<FailedAllocation> {
        None
    }

    /// The limit of the managed heap in bytes. `None` if the user set none, or it can't be read.
    fn heap_limit(&self) -> Option<u64> {
        None
    }

    /// Failed allocations whose exceptions are still on the heap. Exceptions that the runtime made in advance don't
    /// count.
    fn kept_failures(&self) -> Vec<KeptFailure> {
        Vec::new()
    }

    /// Explains a fault at `address` in a managed method: how managed code reaches that address, and the field that was
    /// null.
    fn fault(&self, thread: &ThreadRow, address: Addr) -> Option<String> {
        let _ = (thread, address);
        None
    }
}

//! What a runtime knows of the end of the process.

use crate::facts::ThreadRow;

/// Why a runtime ended the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What was exhausted, with its limit: `the Java heap (limit 64 MiB)`.
    pub what: String,
    /// The structure or function that shows it.
    pub evidence: &'static str,
}

/// What a runtime knows of the end of the process.
pub trait LastWords: Sync {
    /// The failed allocation that a thread reports or throws. `None` if it does neither.
    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory>;
}

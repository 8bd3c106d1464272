//! Items that only the `coremap` program uses: its own limits, and formats of text and numbers that its
//! lines share with the tables. Not part of the library's interface; may change at any time.

pub use crate::analysis::no_runtime::no_runtime;
pub use crate::bytes::{is_harmful, printable};
pub use crate::core::inflate::Compression;
pub use crate::core::producer::DIAG_PAGE_SIZE;
pub use crate::runtimes::hotspot::heap::Generation as HotSpotGeneration;
pub use crate::shell::quoted;
pub use crate::targets::threads::tid_text;

use crate::session::Session;

/// Whether blocks of both processes have the same sizes: malloc is of the same C library.
pub fn same_allocator(one: &Session<'_>, other: &Session<'_>) -> bool {
    one.malloc().is_like(other.malloc())
}

/// Whether `path` names a running process, not a file.
pub fn names_process(path: &std::path::Path) -> bool {
    #[cfg(target_os = "linux")]
    return crate::live::named(path).is_some();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Processes that this program has stopped.
#[cfg(target_os = "linux")]
pub mod stops {
    pub use crate::live::stops::{is_any, release_all, wait, when_none};
}

/// Processes that this program has stopped: none, because coremap reads running processes on Linux only.
#[cfg(not(target_os = "linux"))]
pub mod stops {
    /// Resumes all of them.
    pub fn release_all() {}

    /// Whether there is one.
    pub fn is_any() -> bool {
        false
    }

    /// Waits until there is none.
    pub fn wait() {}

    /// Runs `work` when there is none.
    pub fn when_none<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// Limits on what the program reads itself.
pub mod limits {
    pub use crate::limits::{
        MAX_ADDRESS_INPUT, MAX_BASELINE, MAX_DUMPED_HEAP, MAX_PAGE_READ, MAX_REGEX, MAX_SHOWN_BYTES,
    };
}

/// Sizes and counts as text.
pub mod units {
    pub use crate::units::{count, exact, human, multiple, round, seconds};
}

//! Items that only the `coremap` program uses: its own limits, and formats of text and numbers that its
//! lines share with the tables. Not part of the library's interface; may change at any time.

pub use crate::bytes::{is_harmful, printable};
pub use crate::core::inflate::Compression;
pub use crate::core::producer::DIAG_PAGE_SIZE;
pub use crate::runtimes::coreclr::has_coreclr;
pub use crate::runtimes::hotspot::heap::Generation as HotSpotGeneration;
pub use crate::shell::quoted;

use crate::session::Session;

/// Whether blocks of both processes have the same sizes: malloc is of the same C library.
pub fn same_allocator(one: &Session<'_>, other: &Session<'_>) -> bool {
    one.malloc().is_like(other.malloc())
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

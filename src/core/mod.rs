//! The core file as a file: opening, ELF headers, notes, threads' registers,
//! which producer wrote it, and how much of it is missing.
//!
//! Knows nothing of what the memory means. Nothing in here may depend on any
//! room above it.

pub(crate) mod budget;
pub mod elf;
pub mod extents;
pub mod inflate;
pub mod mapped;
pub mod mapping_name;
pub mod notes;
pub mod open;
pub mod producer;
pub mod prstatus;
pub(crate) mod readahead;
pub mod reads;

pub use elf::{Arch, Perms, Piece, PieceState, Segment, Truncation};
pub use notes::{FileMapping, Notes};
pub use open::{Core, OpenError};
pub use producer::Producer;
pub use prstatus::{Registers, Thread};

//! The core file as a file: opening, ELF headers, notes, threads' registers,
//! which producer wrote it, and how much of it is missing. What comes of it is a
//! [`target`](crate::targets).
//!
//! Knows nothing of what the memory means. Nothing in here may depend on any
//! room above it but `target`.

pub mod elf;
pub mod inflate;
pub mod mapped;
pub(crate) mod note_bytes;
pub mod notes;
pub mod open;
pub(crate) mod own_notes;
pub mod producer;
mod prstatus;
pub(crate) mod scrubbed_notes;
pub(crate) mod written;

//! Core files: opening, ELF headers, notes, registers of threads, producers, truncation. The result is a
//! [`target`](crate::targets).
//!
//! This room knows nothing about the meaning of memory. It may depend on no room above it except `target`.

pub mod elf;
pub mod inflate;
pub mod mapped;
pub(crate) mod note_bytes;
pub mod notes;
pub mod open;
pub mod own_notes;
pub mod producer;
mod prstatus;
pub mod scrubbed_notes;
pub mod written;

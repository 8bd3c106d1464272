//! Writes the contents of a core as files for other viewers.
//!
//! Each format has a room of its own. It takes plain data and answers of runtimes, and knows no command and no file,
//! only [`Write`] and [`Seek`]. Data that a format does not support is refused ([`ExportError::Unfit`]). Nothing is
//! cut silently: what is clipped or left out is counted.

use std::io::{self, Seek, Write};

pub mod gcdump;
pub mod hprof;
mod objects;
pub mod profiles;
#[cfg(feature = "parquet")]
pub mod tables;
pub mod variables;

/// An output file. It must be seekable, because its first bytes may be known last.
pub trait Output: Write + Seek + Send {}

impl<T: Write + Seek + Send> Output for T {}

/// The reason why no file was written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The core has more than the format allows, or no data for it. The text says which.
    #[error("{0}")]
    Unfit(String),
}

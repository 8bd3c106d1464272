//! What a core holds in the files of other people's viewers.
//!
//! A format has a room of its own, made of plain data and of what runtimes answer; it knows no command and no way to a file
//! but [`Write`] and [`Seek`]. What does not go into a format is refused ([`ExportError::Unfit`]), never cut silently: what is clipped
//! or left out is counted.

use std::io::{self, Seek, Write};

pub mod gcdump;
pub mod hprof;
mod objects;
pub mod profiles;
#[cfg(feature = "parquet")]
pub mod tables;
pub(crate) mod variables;

/// A new file, of which what comes first may be known last.
pub trait Output: Write + Seek + Send {}

impl<T: Write + Seek + Send> Output for T {}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The core has more than the format takes, or none of it: in words.
    #[error("{0}")]
    Unfit(String),
}

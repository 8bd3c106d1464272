//! A directory that no path leads out of. Paths and links below it may be made by somebody else.

#[cfg(not(unix))]
mod by_path;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use by_path::Folder;
#[cfg(unix)]
pub(crate) use unix::Folder;

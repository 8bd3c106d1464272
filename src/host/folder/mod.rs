//! A folder that nothing leads out of: files beneath it, by paths and links that somebody else made.

#[cfg(not(unix))]
mod by_path;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use by_path::Folder;
#[cfg(unix)]
pub(crate) use unix::Folder;

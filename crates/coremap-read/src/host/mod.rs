//! Services of the host system that differ by platform: holes of files, read-ahead, reads at an offset, files below a
//! directory, terminal colours.
//!
//! Cores are from Linux, but may be read on another system. Nothing here knows what a file means. Each function has the
//! same name on all systems, and documents what it does on a system without the service. Answers never differ, only
//! time, memory or a safeguard. Mapped memory is in [`core::mapped`](crate::core::mapped), because it needs `unsafe`.
//! Signals and new files belong to the program (`cli`).

mod at;
mod extents;
mod folder;
mod readahead;

pub(crate) use at::FileAt;
pub(crate) use extents::extents;
pub(crate) use folder::Folder;
pub(crate) use readahead::{fetch, fetch_soon};

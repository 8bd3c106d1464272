//! What the system that coremap itself runs on does for it, wherever systems differ: holes of a file, reading ahead,
//! bytes at a place, files beneath a folder, colours of a terminal.
//!
//! Cores are of Linux, and so is the code that reads them; who reads them may sit at another system. Nothing here knows what
//! a file means. Each door has the same name everywhere, and says what a system without it does instead: answers stay the
//! same, only time, memory or a safeguard differ. What is mapped is in [`core::mapped`](crate::core::mapped), as that needs `unsafe`;
//! signals and new files are the program's (`cli`).

mod at;
mod extents;
mod folder;
mod readahead;

pub(crate) use at::FileAt;
pub(crate) use extents::extents;
pub(crate) use folder::Folder;
pub(crate) use readahead::{fetch, fetch_soon};

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

/// Time that all threads of this program have had on processors; `None` where the system is not asked.
pub(crate) fn processor_time() -> Option<std::time::Duration> {
    #[cfg(unix)]
    return rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok();
    #[cfg(not(unix))]
    return None;
}

/// Bytes of a page of this machine's memory; where the system tells none, of the smallest that there are. Async-signal-safe on Linux: it
/// asks the auxiliary vector or a number kept of it.
pub(crate) fn page_size() -> usize {
    #[cfg(unix)]
    return rustix::param::page_size();
    #[cfg(not(unix))]
    return 4096;
}

//! All malloc blocks at once, with the free lists.

use crate::diag::WarningCode;
use crate::limits;
use crate::native::malloc::{Blocks, FreeLists, Malloc};
use crate::process::Process;
use crate::units::{exact, human};

/// Reads all blocks of malloc, and the lists that say which of them are free.
pub fn read_blocks(process: &Process, malloc: &Malloc) -> (FreeLists, Blocks) {
    let mut lists = FreeLists::read(process, malloc, &[]);
    let mut blocks = Blocks::read(process, malloc, &lists);
    let (caches, more_caches) = blocks.caches();
    if more_caches {
        warn_cache_limit(process);
    }
    if let Some(with_others) = lists.with_caches(process, malloc, &caches) {
        lists = with_others;
        blocks = Blocks::read(process, malloc, &lists);
    }
    if blocks.capped {
        let limit = human(limits::MAX_HEAP_PART);
        let what = format!(
            "a contiguous range of malloc's heap is larger than {limit}; the blocks past that are not \
                            read"
        );
        process.diag.partial(WarningCode::Limit, what);
    }
    (lists, blocks)
}

/// Warns that more blocks have the size of a thread cache than are checked.
pub fn warn_cache_limit(process: &Process) {
    process.diag.partial(
        WarningCode::Limit,
        format!(
            "more than {} blocks have the size of a thread cache; the others are not checked, so blocks free in such a \
             cache count as used",
            exact(limits::MAX_TCACHES as u64)
        ),
    );
}

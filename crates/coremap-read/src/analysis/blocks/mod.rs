//! malloc chunks, counted by size and content.

pub mod alike;
pub mod clusters;
mod tally;

use crate::diag::WarningCode;
use crate::limits;
use crate::native::malloc::FreeLists;
use crate::process::Process;
use crate::units::exact;

pub use alike::alike;
pub use clusters::{clusters, size_classes};
pub use tally::{BlockReader, BySize, FILLED, Labelled, Tally, merge_labels};

/// Warns about free lists that could not be followed to their end.
pub fn warn_lists(process: &Process, lists: &FreeLists) {
    lists.warn_missing_lists(process);
    for (_, what) in &lists.broken {
        process.diag.partial(WarningCode::MallocList, format!("a free list ends early: {what}"));
    }
    if lists.capped {
        let most = exact(limits::MAX_FREE_CHUNKS as u64);
        process
            .diag
            .partial(WarningCode::Limit, format!("more than {most} free chunks: the lists of the rest are not shown"));
    }
}

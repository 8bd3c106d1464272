//! `collections`: how full lists, queues and hash tables are, and who has the empty ones.

mod analysis;
mod finding;
mod holders;
mod report;
mod shapes;
mod table;

pub use analysis::collections;
pub(in crate::commands) use finding::finding;
pub use report::*;

use crate::commands::command::{Command, answer, of_runtime};

pub(super) const COMMAND: Command = of_runtime(
    "collections",
    &[answer::<CollectionsReport>],
    "Show how many slots of lists and maps are used, by type, and which fields hold the emptiest",
);

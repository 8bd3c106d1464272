//! Analyses that several commands share: names of code, roots, reachability, malloc blocks. This room knows no command,
//! terminal or file format.

pub(crate) mod blocks;
pub(crate) mod contents;
pub(crate) mod crash;
pub(crate) mod graph_sizes;
pub(crate) mod heap_notes;
pub(crate) mod in_object;
pub(crate) mod listing;
pub(crate) mod naming;
pub(crate) mod no_runtime;
pub(crate) mod place;
pub(crate) mod reach;
pub(crate) mod region;
pub(crate) mod resident;
pub(crate) mod roots;
pub(crate) mod zero;

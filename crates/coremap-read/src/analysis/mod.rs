//! Analyses that several commands share: names of code, roots, reachability, malloc blocks. This room knows no command,
//! terminal or file format.

pub mod across;
pub mod block_graph;
pub mod blocks;
pub mod contents;
pub mod crash;
pub mod damaged_blocks;
pub mod graph_sizes;
pub mod heap_notes;
pub mod in_object;
pub mod last_words;
pub mod listing;
pub mod naming;
pub mod native_waits;
pub mod no_runtime;
pub mod place;
pub mod reach;
pub mod region;
pub mod resident;
pub mod roots;
pub mod zero;

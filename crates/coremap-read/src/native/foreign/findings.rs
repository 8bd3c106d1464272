//! Results of a recogniser.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::map::{Confidence, Kind, Owner};
use crate::words::AllocatorName;

/// The label shared by all ranges of one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) kind: Kind,
    pub(super) confidence: Confidence,
    pub(super) owner: Owner,
    /// Owner and use of the memory, for reports.
    pub(super) detail: String,
    /// The structure that proves the label, with an address, or the rule of a guess.
    pub(super) evidence: String,
}

impl Label {
    /// Makes a label that structures prove.
    pub(super) fn derived(kind: Kind, owner: Owner, detail: impl Into<String>, evidence: impl Into<String>) -> Label {
        Label { kind, confidence: Confidence::Derived, owner, detail: detail.into(), evidence: evidence.into() }
    }

    /// Makes a label for memory that only looks like this.
    pub(super) fn heuristic(kind: Kind, owner: Owner, detail: impl Into<String>, evidence: impl Into<String>) -> Label {
        Label { confidence: Confidence::Heuristic, ..Label::derived(kind, owner, detail, evidence) }
    }
}

/// A heap whose blocks are not read yet. Most commands do not need the blocks, and free lists may be long.
#[derive(Clone, Debug)]
pub struct UnreadHeap {
    pub name: AllocatorName,
    pub(crate) owner: Owner,
    /// The heap's structures, each with its memory.
    pub(super) structures: Vec<(Addr, AddrRange)>,
    /// Size of the allocator's pages in bytes.
    pub(super) page: u64,
    /// Memory that nobody had claimed when the heap was found.
    pub(super) unclaimed: Arc<[AddrRange]>,
}

#[derive(Default)]
pub(super) struct Findings {
    list: Vec<(AddrRange, Label)>,
    pub(super) heaps: Vec<UnreadHeap>,
}

impl Findings {
    /// Adds `label` for `ranges`. Adjacent ranges are joined.
    pub(super) fn add(&mut self, ranges: Vec<AddrRange>, label: &Label) {
        let room = limits::MAX_FOREIGN_RANGES.saturating_sub(self.list.len());
        self.list.extend(union(ranges).into_iter().take(room).map(|r| (r, label.clone())));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_list(self) -> Vec<(AddrRange, Label)> {
        self.list
    }
}

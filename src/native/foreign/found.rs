//! What a recogniser says.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::map::{Confidence, Kind, Owner};
use crate::words::AllocatorName;

/// What all ranges of one statement have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) kind: Kind,
    pub(super) confidence: Confidence,
    pub(super) owner: Owner,
    /// Whose memory, and what of it.
    pub(super) detail: String,
    /// The structure that proves it, with an address; or the rule of the guess.
    pub(super) evidence: String,
}

impl Label {
    /// What structures prove.
    pub(super) fn derived(kind: Kind, owner: Owner, detail: impl Into<String>, evidence: impl Into<String>) -> Label {
        Label { kind, confidence: Confidence::Derived, owner, detail: detail.into(), evidence: evidence.into() }
    }

    /// What only looks like it.
    pub(super) fn heuristic(kind: Kind, owner: Owner, detail: impl Into<String>, evidence: impl Into<String>) -> Label {
        Label { confidence: Confidence::Heuristic, ..Label::derived(kind, owner, detail, evidence) }
    }
}

/// A heap whose blocks can be read, and what was met of it on the way. Most questions do not need the blocks, and lists of
/// free ones are as long as there are any.
#[derive(Clone, Debug)]
pub(crate) struct UnreadHeap {
    /// Which allocator.
    pub(crate) name: AllocatorName,
    /// The module it is in.
    pub(crate) owner: Owner,
    /// Its structures, with the memory of each.
    pub(super) holders: Vec<(Addr, AddrRange)>,
    /// Memory that nobody had claimed when it was found.
    pub(super) open: Arc<[AddrRange]>,
}

/// The statements of one recogniser.
#[derive(Default)]
pub(super) struct Found {
    list: Vec<(AddrRange, Label)>,
    /// Heaps whose blocks can be read.
    pub(super) heaps: Vec<UnreadHeap>,
}

impl Found {
    /// Say of `ranges` what `label` says; ranges that touch become one.
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

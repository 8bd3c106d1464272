//! What a recogniser says.

use crate::addr::{AddrRange, union};
use crate::limits;
use crate::map::{Confidence, Kind, Owner};
use crate::native::malloc::ExtentHeap;

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

/// The statements of one recogniser.
#[derive(Default)]
pub(super) struct Found {
    list: Vec<(AddrRange, Label)>,
    /// Heaps whose blocks are known.
    pub(super) heaps: Vec<ExtentHeap>,
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

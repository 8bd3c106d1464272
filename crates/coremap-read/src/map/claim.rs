//! Claims: statements that a range has a kind, with evidence.

use std::sync::Arc;

use crate::addr::AddrRange;
use crate::limits;
use crate::map::Kind;
use crate::words::words;

words! {
    /// Confidence of a label.
    #[derive(Default)]
    pub enum Confidence {
        /// A guess by appearance. The evidence names the rule.
        #[default]
        Heuristic = "heuristic",
        /// A structure plus arithmetic.
        Derived = "derived",
        /// A structure, header or note states it.
        Exact = "exact",
    }
}

/// Owner of a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// No particular owner.
    None,
    /// The thread with this thread ID.
    Thread(u32),
    /// The module with this index in the process's list.
    Module(u32),
}

/// A claim: one statement about a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Addresses.
    pub range: AddrRange,
    /// Kind of memory.
    pub kind: Kind,
    /// Confidence of the claim.
    pub confidence: Confidence,
    /// Owner of the memory.
    pub owner: Owner,
    /// Details of the label: thread, arena, file and section, or heap and generation.
    pub detail: Arc<str>,
    /// Evidence: structure, address and field, or the rule of a guess.
    pub evidence: Arc<str>,
}

/// Collects the claims of introspectors.
#[derive(Default)]
pub struct Claims {
    list: Vec<Claim>,
}

impl Claims {
    /// Adds a claim. Empty ranges are ignored.
    pub fn add(&mut self, claim: Claim) {
        if !claim.range.is_empty() && !self.is_full() {
            self.list.push(claim);
        }
    }

    /// Whether the limit on claims is reached (`limits::MAX_CLAIMS`).
    pub fn is_full(&self) -> bool {
        self.list.len() >= limits::MAX_CLAIMS
    }

    /// Iterates all claims so far, in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.list.iter()
    }

    /// Returns all claims without duplicates, sorted independently of insertion order.
    pub fn into_sorted(mut self) -> Vec<Claim> {
        self.list.sort();
        self.list.dedup();
        self.list
    }
}

impl From<Vec<Claim>> for Claims {
    fn from(list: Vec<Claim>) -> Claims {
        let mut claims = Claims::default();
        for claim in list {
            claims.add(claim);
        }
        claims
    }
}

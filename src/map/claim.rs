//! Claims: this range is of that kind, because of this.

use std::sync::Arc;

use crate::addr::AddrRange;
use crate::limits;
use crate::map::Kind;
use crate::words::words;

words! {
    /// How sure a label is.
    #[derive(Default)]
    pub enum Confidence {
        /// A guess by what it looks like; its evidence names the guess.
        #[default]
        Heuristic = "heuristic",
        /// A structure plus arithmetic.
        Derived = "derived",
        /// A structure, header or note says so.
        Exact = "exact",
    }
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Nobody in particular.
    None,
    /// The thread of this tid.
    Thread(u32),
    /// The module of this index in the process's list.
    Module(u32),
}

/// One statement about a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Addresses.
    pub range: AddrRange,
    /// What they are.
    pub kind: Kind,
    /// How sure.
    pub confidence: Confidence,
    /// Whose.
    pub owner: Owner,
    /// Which one: thread, arena, file and section, heap and generation.
    pub detail: Arc<str>,
    /// How it is known: structure, address, field; or the rule of a guess.
    pub evidence: Arc<str>,
}

/// Where introspectors put their claims.
#[derive(Default)]
pub struct Claims {
    list: Vec<Claim>,
}

impl Claims {
    /// Add a claim; an empty range claims nothing.
    pub fn add(&mut self, claim: Claim) {
        if !claim.range.is_empty() && !self.is_full() {
            self.list.push(claim);
        }
    }

    /// Whether no more claims are taken ([`limits::MAX_CLAIMS`]).
    pub fn is_full(&self) -> bool {
        self.list.len() >= limits::MAX_CLAIMS
    }

    /// All claims so far, as they came.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.list.iter()
    }

    /// All claims, in an order that does not depend on who came first.
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

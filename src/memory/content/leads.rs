//! What the pointers of a page lead into.

use crate::memory::content::page::percent;

/// What an address leads into: a number that [`Words`] gives to each part of memory it tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lead(pub u16);

/// What is an address in the process, for [`Content::of_page`](super::Content::of_page).
pub trait Words: Sync {
    /// What `word` leads into; `None` where it is no address of mapped memory.
    fn lead(&self, word: u64) -> Option<Lead>;
}

impl<F: Fn(u64) -> Option<Lead> + Sync> Words for F {
    fn lead(&self, word: u64) -> Option<Lead> {
        self(word)
    }
}

/// Percent of the addresses that must lead into one part of memory for that to be told: the others are what a node or
/// object has beside, such as the table of its methods.
const LEADING: usize = 75;

/// What the addresses of a page lead into.
pub(super) struct Leads {
    pub(super) all: usize,
    seen: [Lead; LEADS],
}

/// Addresses of a page whose leads are kept: those of 4 KiB.
const LEADS: usize = 512;

impl Default for Leads {
    fn default() -> Leads {
        Leads { all: 0, seen: [Lead(0); LEADS] }
    }
}

impl Leads {
    pub(super) fn add(&mut self, lead: Lead) {
        if let Some(place) = self.seen.get_mut(self.all) {
            *place = lead;
        }
        self.all += 1;
    }

    /// Where nearly all of them lead.
    pub(super) fn most(&self) -> Option<Lead> {
        let seen = self.seen.get(..self.all).unwrap_or(&self.seen);
        // Of more than half of a list, the vote of each against each other one leaves that one.
        let vote = |(candidate, votes): (Option<Lead>, usize), lead: &Lead| match (candidate, votes) {
            (Some(c), _) if c == *lead => (candidate, votes + 1),
            (_, 0) => (Some(*lead), 1),
            _ => (candidate, votes - 1),
        };
        let candidate = seen.iter().fold((None, 0), vote).0?;
        let of = seen.iter().filter(|lead| **lead == candidate).count();
        (percent(of, seen.len()) >= LEADING).then_some(candidate)
    }
}

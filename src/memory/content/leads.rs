//! The destination of a page's pointers.

use crate::memory::content::page::percent;

/// Number of a pointer destination. [`Words`] assigns one to each kind of memory that it distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lead(pub u16);

/// Recognises addresses of the process, for [`Content::of_page`](super::Content::of_page).
pub trait Words: Sync {
    /// Returns the destination of `word`. `None` if it is no address of mapped memory.
    fn lead(&self, word: u64) -> Option<Lead>;
}

impl<F: Fn(u64) -> Option<Lead> + Sync> Words for F {
    fn lead(&self, word: u64) -> Option<Lead> {
        self(word)
    }
}

/// Minimum percentage of addresses that must have one destination for it to be reported. The others are fields that a
/// node or object has besides, such as a pointer to its method table.
const LEADING: usize = 75;

/// Destinations of a page's addresses.
pub(super) struct Leads {
    pub(super) all: usize,
    seen: [Lead; LEADS],
}

/// Maximum number of addresses whose destinations are stored: the words of a 4 KiB page.
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

    /// Returns the destination of nearly all addresses.
    pub(super) fn most(&self) -> Option<Lead> {
        let seen = self.seen.get(..self.all).unwrap_or(&self.seen);
        // Boyer-Moore majority vote: if one destination has more than half, it is the candidate.
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

//! The destination of a page's pointers.

use crate::memory::content::page::percent;

/// Number of a pointer destination. [`AddressClassifier`] assigns one to each kind of memory that it distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u16);

/// Recognises addresses of the process, for [`Content::of_page`](super::Content::of_page).
pub trait AddressClassifier: Sync {
    /// Returns the destination of `word`. `None` if it is no address of mapped memory.
    fn destination(&self, word: u64) -> Option<DestinationId>;
}

impl<F: Fn(u64) -> Option<DestinationId> + Sync> AddressClassifier for F {
    fn destination(&self, word: u64) -> Option<DestinationId> {
        self(word)
    }
}

/// Minimum percentage of addresses that must have one destination for it to be reported. The others are fields that a
/// node or object has besides, such as a pointer to its method table.
const MIN_SHARE: usize = 75;

/// Destinations of a page's addresses.
pub(super) struct DestinationCounts {
    pub(super) all: usize,
    seen: [DestinationId; MAX_STORED],
}

/// Maximum number of addresses whose destinations are stored: the words of a 4 KiB page.
const MAX_STORED: usize = 512;

impl Default for DestinationCounts {
    fn default() -> DestinationCounts {
        DestinationCounts { all: 0, seen: [DestinationId(0); MAX_STORED] }
    }
}

impl DestinationCounts {
    pub(super) fn add(&mut self, destination: DestinationId) {
        if let Some(place) = self.seen.get_mut(self.all) {
            *place = destination;
        }
        self.all += 1;
    }

    /// Returns the destination of nearly all addresses.
    pub(super) fn majority(&self) -> Option<DestinationId> {
        let seen = self.seen.get(..self.all).unwrap_or(&self.seen);
        // Boyer-Moore majority vote: if one destination has more than half, it is the candidate.
        let vote = |(candidate, votes): (Option<DestinationId>, usize), destination: &DestinationId| match (
            candidate, votes,
        ) {
            (Some(c), _) if c == *destination => (candidate, votes + 1),
            (_, 0) => (Some(*destination), 1),
            _ => (candidate, votes - 1),
        };
        let candidate = seen.iter().fold((None, 0), vote).0?;
        let of = seen.iter().filter(|destination| **destination == candidate).count();
        (percent(of, seen.len()) >= MIN_SHARE).then_some(candidate)
    }
}

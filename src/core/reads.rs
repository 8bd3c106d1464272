//! Which pages of a core were read: what a shrunk core must keep. And reads that
//! are made to fail, for tests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::addr::{Addr, AddrRange};

/// Kept pages are of this size, counted from address 0.
pub const PAGE: u64 = 4096;

/// A record of pages read; off unless asked for.
#[derive(Default)]
pub struct Reads {
    pages: Option<Mutex<BTreeSet<u64>>>,
    /// The number of the read that fails, and how many there were.
    fault: Option<(u64, AtomicU64)>,
}

impl Reads {
    /// A record that is on.
    pub fn recording() -> Reads {
        Reads { pages: Some(Mutex::default()), fault: None }
    }

    /// The same record, with the `n`th read (from 1 on) failing.
    #[doc(hidden)]
    #[must_use]
    pub fn failing_at(self, n: u64) -> Reads {
        Reads { fault: Some((n, AtomicU64::new(0))), ..self }
    }

    /// Whether the read that begins now is the one that fails.
    pub(crate) fn fails(&self) -> bool {
        self.fault.as_ref().is_some_and(|(n, done)| done.fetch_add(1, Ordering::Relaxed) + 1 == *n)
    }

    /// Reads so far, where one of them was to fail.
    #[doc(hidden)]
    pub fn counted(&self) -> u64 {
        self.fault.as_ref().map_or(0, |(_, done)| done.load(Ordering::Relaxed))
    }

    /// Whether the read that was to fail did.
    pub(crate) fn failed(&self) -> bool {
        self.fault.as_ref().is_some_and(|(n, done)| done.load(Ordering::Relaxed) >= *n)
    }

    /// `len` bytes at `addr` were read.
    pub fn note(&self, addr: Addr, len: u64) {
        if let Some(pages) = &self.pages
            && len > 0
        {
            let last = addr.saturating_add(len - 1).0 / PAGE;
            let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
            pages.extend(addr.0 / PAGE..=last);
        }
    }

    /// The pages read so far, as sorted ranges.
    pub fn ranges(&self) -> Vec<AddrRange> {
        let Some(pages) = &self.pages else { return Vec::new() };
        let pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        crate::addr::union(pages.iter().map(|p| AddrRange::sized(Addr(p * PAGE), PAGE)).collect())
    }
}

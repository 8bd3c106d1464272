//! Which pages of a core were read: what a shrunk core must keep.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::addr::{Addr, AddrRange};

/// Kept pages are of this size, counted from address 0.
pub const PAGE: u64 = 4096;

/// A record of pages read; off unless asked for.
#[derive(Default)]
pub struct Reads {
    pages: Option<Mutex<BTreeSet<u64>>>,
}

impl Reads {
    /// A record that is on.
    pub fn recording() -> Reads {
        Reads { pages: Some(Mutex::default()) }
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

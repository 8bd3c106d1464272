//! Requests bytes of the file before they are read.
//!
//! A core of 100,000 mappings is read in scattered pages. With the kernel's own read-ahead off (`mapped.rs`), each page
//! is waited for separately, although the disk could read dozens at once. For a scan, the kernel reads ahead, but not
//! as far as disks can.

use std::fs::File;
use std::ops::Range;

#[cfg(target_os = "linux")]
mod asked {
    use std::fs::File;
    use std::io::IoSliceMut;
    use std::num::NonZeroU64;
    use std::ops::Range;

    use rustix::fs::{Advice, fadvise};
    use rustix::io::{ReadWriteFlags, preadv2};

    /// Advises the kernel. Returns whether it accepted.
    pub(super) fn will_need(file: &File, place: &Range<u64>) -> bool {
        let len = NonZeroU64::new(place.end.saturating_sub(place.start));
        fadvise(file, place.start, len, Advice::WillNeed).is_ok()
    }

    /// Whether the byte at this offset is in memory.
    pub(super) fn is_there(file: &File, place: u64) -> bool {
        let mut byte = [0];
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], place, ReadWriteFlags::NOWAIT).is_ok()
    }
}

/// On other systems, mapped bytes are read on first access.
#[cfg(not(target_os = "linux"))]
mod asked {
    use std::fs::File;
    use std::ops::Range;

    pub(super) fn will_need(_: &File, _: &Range<u64>) -> bool {
        false
    }

    pub(super) fn is_there(_: &File, _: u64) -> bool {
        true
    }
}

use crate::limits;

/// Maximum gap between two ranges that are fetched together, in bytes. A longer request costs less than another one.
const GAP: u64 = 16 << 10;

/// Minimum page size of the page cache in bytes.
const CACHE_PAGE: u64 = 4096;

/// Requests `places` in the order of the file. If the advice fails, they are read later.
pub(crate) fn fetch(file: &File, places: Vec<Range<u64>>) {
    for place in joined(places) {
        if !asked::will_need(file, &place) {
            break;
        }
    }
}

/// Requests `place`, which a scan needs soon, unless it is in memory. The advice may fail.
pub(crate) fn fetch_soon(file: &File, place: Range<u64>) {
    // The kernel's own read-ahead ends somewhere, so check the last byte.
    let Some(last) = place.end.checked_sub(1).filter(|last| *last >= place.start) else { return };
    if !asked::is_there(file, last) {
        asked::will_need(file, &place);
    }
}

/// Rounds to whole pages, sorts, and joins neighbours, up to [`limits::MAX_READ_AHEAD`] bytes in all.
fn joined(mut places: Vec<Range<u64>>) -> Vec<Range<u64>> {
    places.retain(|p| p.start < p.end);
    places.sort_unstable_by_key(|p| (p.start, p.end));
    let mut out: Vec<Range<u64>> = Vec::new();
    let mut left = limits::MAX_READ_AHEAD;
    for place in places {
        let (start, end) = (
            place.start / CACHE_PAGE * CACHE_PAGE,
            place.end.checked_next_multiple_of(CACHE_PAGE).unwrap_or(place.end),
        );
        let known = out.last_mut().filter(|last| start <= last.end.saturating_add(GAP));
        let more = end.saturating_sub(known.as_ref().map_or(start, |last| last.end));
        let Some(rest) = left.checked_sub(more) else { break };
        left = rest;
        match known {
            Some(last) => last.end = last.end.max(end),
            None => out.push(start..end),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_order_and_neighbours_as_one() {
        let places = vec![1 << 20..(1 << 20) + 64, 8000..8200, 0..64, 64..64, 5 << 20..(5 << 20) + 1];
        assert_eq!(joined(places), [0..12288, 1 << 20..(1 << 20) + 4096, 5 << 20..(5 << 20) + 4096]);
    }

    #[test]
    fn a_place_that_is_none_is_not_asked_for() -> std::io::Result<()> {
        let file = tempfile::tempfile()?;
        file.set_len(8192)?;
        for place in [0..0, 4096..4096, 4096..8192, 0..u64::MAX, u64::MAX - 1..u64::MAX] {
            fetch_soon(&file, place);
        }
        Ok(())
    }

    #[test]
    fn there_is_an_end_to_it() {
        let all: u64 =
            joined((0..1 << 20).map(|i| i << 22..(i << 22) + 8192).collect()).iter().map(|p| p.end - p.start).sum();
        assert_eq!(all, limits::MAX_READ_AHEAD);
        assert!(joined(std::iter::once(0..u64::MAX).collect()).is_empty());
    }
}

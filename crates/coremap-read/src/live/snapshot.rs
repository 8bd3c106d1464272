//! Copies all memory of a stopped process that can change, so that the process can run while it is analysed.
//!
//! The copy has the pages that are only in memory: anonymous memory, changed pages of private file mappings, and shared
//! memory without a named file. All other pages are zero or in files, which are read later.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use rustix::fs::SeekFrom;

use crate::addr::AddrRange;
use crate::core::mapped::mirror::{Mirror, PIECE};
use crate::live::Live;
use crate::live::bytes::{AbsentSource, Bytes, MappedPart, bit};
use crate::live::pages::push;
use crate::targets::residence::PageRuns;

/// Maximum number of files that are opened for later reads. In-memory pages of further files are copied. A program may
/// have 1,024 files open.
const OPEN_FILES: usize = 512;

/// Divisor of available memory, and of `--memory`, for the maximum size of a copy. The analysis needs memory too.
const SHARE: u64 = 2;

/// The pages that were in memory when the process was copied.
pub(super) struct PagesAtCopy {
    /// By index of the mapping.
    parts: Vec<PageRuns>,
}

impl PagesAtCopy {
    /// Returns the pages of `range` in the mapping with this index.
    pub(super) fn of(&self, part: usize, range: AddrRange) -> Option<PageRuns> {
        let PageRuns { resident, private, swapped } = self.parts.get(part)?;
        let within = |runs: &Vec<AddrRange>| {
            let first = runs.partition_point(|run| run.end <= range.start);
            let some = runs.iter().skip(first).take_while(|run| run.start < range.end);
            some.filter_map(|run| run.intersect(&range)).collect()
        };
        Some(PageRuns { resident: within(resident), private: private.as_ref().map(within), swapped: within(swapped) })
    }
}

impl Live {
    /// Copies all memory that can change, and resumes the process. Does neither if the copy would take too much memory,
    /// or if pagemap can't be read.
    pub(super) fn copy_and_resume(&self) {
        if self.attach.no_stop || self.attach.to_dump || self.bytes.at_copy().is_some() || self.is_resumed() {
            return;
        }
        let room = self.memory.unwrap_or_else(crate::machine::available_memory) / SHARE;
        if self.mirror().is_some_and(|mirror| self.bytes.copy_to(mirror, room)) {
            self.end();
        }
    }
}

impl Bytes {
    /// Copies all memory that can change. Returns `false` if that takes more than `room` bytes, or if it fails.
    fn copy_to(&self, mirror: &Mirror, room: u64) -> bool {
        let Some((places, pages)) = self.only_in_memory() else { return false };
        let piece = PIECE as u64;
        let mut pieces: Vec<usize> = Vec::new();
        for place in places {
            pieces.extend((place.start / piece) as usize..place.end.div_ceil(piece) as usize);
        }
        pieces.dedup();
        let is_copied = (pieces.len() as u64).saturating_mul(piece) <= room && mirror.keep(&pieces);
        if is_copied {
            self.set_copied(pages);
        }
        is_copied
    }

    /// Returns the target offsets of pages that are only in memory, ascending, and the pages of all mappings. `None` if
    /// pagemap can't be read.
    fn only_in_memory(&self) -> Option<(Vec<Range<u64>>, PagesAtCopy)> {
        let (mut places, mut pages) = (Vec::new(), Vec::new());
        let mut files = BTreeSet::new();
        for part in self.parts() {
            if part.is_empty() && matches!(part.absent_source, AbsentSource::Zero) {
                pages.push(PageRuns::default());
                continue;
            }
            let file = match &part.absent_source {
                AbsentSource::InFile(file, offset) => {
                    let is_known = files.len() < OPEN_FILES || files.contains(&Arc::as_ptr(file));
                    files.extend(is_known.then_some(Arc::as_ptr(file)));
                    is_known.then(|| Some((file.get()?, *offset))).flatten()
                }
                AbsentSource::Zero | AbsentSource::Kernel => None,
            };
            let mut changed = Vec::new();
            let runs = self.pages_now(part.range, |page, word| {
                let is_here = word & (bit::PRESENT | bit::SWAPPED) != 0 && word & bit::GUARD == 0;
                if is_here && (file.is_none() || word & bit::FILE == 0) {
                    push(&mut changed, page);
                }
            })?;
            pages.push(runs);
            let place = |run: &AddrRange| {
                let run = run.intersect(&part.range)?;
                let from = part.place + run.start.since(part.range.start);
                Some(from..from + run.len())
            };
            match file {
                Some(_) if !part.is_dumped => {}
                Some((file, offset)) if part.is_shared => places.extend(data_of(file, offset, part)),
                _ => places.extend(changed.iter().filter_map(place)),
            }
        }
        Some((places, PagesAtCopy { parts: pages }))
    }
}

/// Returns the target offsets of a mapping whose bytes are not in a hole of the file. Returns all of them if holes are
/// unknown.
fn data_of(file: &File, offset: u64, part: &MappedPart) -> Vec<Range<u64>> {
    let (mut out, end) = (Vec::new(), offset.saturating_add(part.range.len()));
    let mut at = offset;
    while at < end {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole follows.
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => at,
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(end).min(end);
        if data >= hole {
            break;
        }
        out.push(part.place + (data - offset)..part.place + (hole - offset));
        at = hole;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::live::bytes::page;

    #[test]
    fn what_changes_after_the_copy_is_not_seen() -> std::io::Result<()> {
        let (pages, page, pid) = (64, page() as usize, std::process::id());
        let mut memory = memmap2::MmapMut::map_anon(pages * page)?;
        let mut write = |number: usize, value: u8| memory.get_mut(number * page).map(|byte| *byte = value);
        write(3, 1);
        write(40, 2);
        let range = AddrRange::sized(Addr::new(memory.as_ptr() as u64), (pages * page) as u64);
        let part = MappedPart {
            place: 0,
            range,
            absent_source: AbsentSource::Zero,
            populated: None,
            is_private: false,
            is_shared: false,
            is_dumped: true,
        };
        let open = |name: &str| File::open(format!("/proc/self/{name}"));
        let bytes = Arc::new(Bytes::new(pid, open("mem")?, Some(open("pagemap")?), vec![part]));
        let fill = bytes.clone();
        let mirror = Mirror::new(bytes.len(), 0, Box::new(move |place, out| fill.fill(place, out)))?;
        assert!(!bytes.copy_to(&mirror, PIECE as u64 - 1), "no room");
        assert!(bytes.copy_to(&mirror, bytes.len()));
        let mut write = |number: usize, value: u8| memory.get_mut(number * page).map(|byte| *byte = value);
        write(3, 9);
        write(5, 9);
        let seen = |number: usize| mirror.bytes().get(number * page).copied();
        assert_eq!([3, 5, 40].map(seen), [Some(1), Some(0), Some(2)]);
        // Two pages, unless the kernel made a huge page of them.
        let now = bytes.pages_now(range, |_, _| ()).unwrap_or_default().resident;
        let then = bytes.pages(range).unwrap_or_default().resident;
        let at = |number: usize| range.start.saturating_add((number * page) as u64);
        let has = |runs: &[AddrRange], number: usize| runs.iter().any(|run| run.contains(at(number)));
        assert!(has(&then, 3) && has(&then, 40) && has(&now, 5), "{then:?} {now:?}");
        assert!(!has(&then, 5) || then == now, "{then:?} {now:?}");
        Ok(())
    }
}

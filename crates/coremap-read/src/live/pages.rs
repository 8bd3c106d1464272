//! Which pages of a running process are in memory or in swap.

use std::fs::File;
use std::ops::Range;

use crate::addr::AddrRange;
use crate::live::bytes::{AbsentSource, Bytes, QUERY_PAGES, STRETCH_PAGES, bit, number, page, read_all};
use crate::live::ptrace;
use crate::targets::extents::Extents;
use crate::targets::residence::PageRuns;

/// Number of runs of pages that one call of `ptrace::scan_pages` finds: 24 KiB.
const SCANNED_RUNS: usize = 1024;

impl Bytes {
    /// Returns the page runs of `range`, which is within one mapping: resident, private to this process, and swapped.
    /// `None` if pagemap can't be read.
    pub(super) fn pages(&self, range: AddrRange) -> Option<PageRuns> {
        match self.at_copy() {
            Some(pages) => pages.of(self.index_at(range.start)?, range),
            None => self.pages_now(range, |_, _| ()),
        }
    }

    /// Like `pages`, but always reads pagemap. Also passes each page and its word to `visit`.
    pub(super) fn pages_now(&self, range: AddrRange, mut visit: impl FnMut(AddrRange, u64)) -> Option<PageRuns> {
        let file = self.pagemap()?;
        let part = self.index_at(range.start).and_then(|index| self.parts().get(index));
        // If memory is not shared, a present page that is not exclusive is the kernel's zero page.
        let wanted = if part.is_some_and(|part| part.is_private) { bit::EXCLUSIVE } else { 0 };
        let (mut there, mut private, mut swapped) = (Vec::new(), Vec::new(), Vec::new());
        let mut words = vec![0; (64 << 10).min(range.len().div_ceil(page()) * 8) as usize];
        for run in populated(file, range) {
            let mut at = run.start;
            while at < run.end {
                let left = run.end.since(at).div_ceil(page()) as usize * 8;
                let len = words.len().min(left);
                let words = words.get_mut(..len)?;
                if read_all(file, number(at) * 8, words).ok()? < words.len() {
                    return None;
                }
                for word in words.as_chunks::<8>().0 {
                    let word = u64::from_ne_bytes(*word);
                    let this = AddrRange::sized(at, page());
                    visit(this, word);
                    if word & bit::PRESENT != 0 && word & wanted == wanted {
                        push(&mut there, this);
                        if word & bit::EXCLUSIVE != 0 {
                            push(&mut private, this);
                        }
                    } else if word & bit::PRESENT == 0 && word & bit::SWAPPED != 0 && word & bit::GUARD == 0 {
                        push(&mut swapped, this);
                    }
                    at = this.end;
                }
            }
        }
        let within = |runs: Vec<AddrRange>| runs.iter().filter_map(|run| run.intersect(&range)).collect();
        Some(PageRuns { resident: within(there), private: Some(within(private)), swapped: within(swapped) })
    }

    /// Returns the offsets that may have non-zero bytes: the present pages of sparse anonymous memory, and all other
    /// memory.
    pub(super) fn extents(&self) -> Extents {
        let mut data: Vec<Range<u64>> = Vec::new();
        let mut add = |from: u64, to: u64| match data.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => data.push(from..to),
        };
        for part in self.parts() {
            let known = match part.absent_source {
                AbsentSource::Zero if part.is_empty() => continue,
                AbsentSource::Zero if part.is_sparse() => self.pages(part.range),
                _ => None,
            };
            let Some(PageRuns { resident, swapped, .. }) = known else {
                add(part.place, part.place + part.range.len());
                continue;
            };
            for run in crate::addr::union(resident.into_iter().chain(swapped).collect()) {
                let from = part.place + run.start.since(part.range.start);
                add(from, from + run.len());
            }
        }
        Extents::new(data)
    }
}

/// Returns runs of pages in `range` that contain all pages in memory or in swap. A run may include short gaps. If the
/// kernel can't find the pages (before Linux 6.7), returns the whole range. Then each page costs a read of 8 bytes of
/// pagemap, whether it is in memory or not.
fn populated(pagemap: &File, range: AddrRange) -> Vec<AddrRange> {
    let whole = AddrRange::new(range.start.align_down(page()), range.end.align_up(page()));
    if whole.len() / page() <= QUERY_PAGES as u64 {
        return vec![whole];
    }
    let mut regions = vec![ptrace::PageRegion::default(); SCANNED_RUNS];
    let mut runs: Vec<AddrRange> = Vec::new();
    let mut at = whole.start;
    while at < whole.end {
        let Ok((count, end)) = ptrace::scan_pages(pagemap, AddrRange::new(at, whole.end), &mut regions) else {
            return vec![whole];
        };
        for run in regions.iter().take(count).filter_map(|region| region.range().intersect(&whole)) {
            match runs.last_mut() {
                Some(last) if run.start.since(last.end) / page() <= STRETCH_PAGES as u64 => {
                    last.end = last.end.max(run.end);
                }
                _ => runs.push(run),
            }
        }
        if count < regions.len() {
            break;
        }
        // The kernel works in steps of 512 runs. If it reaches the end of the range in the second step or later, it
        // reports the end of the step before (6.18), and would find the same runs again.
        let end = runs.last().map_or(end, |last| end.max(last.end));
        // Without progress, the loop would not end.
        if end <= at {
            return vec![whole];
        }
        at = end;
    }
    runs
}

pub(super) fn push(runs: &mut Vec<AddrRange>, page: AddrRange) {
    match runs.last_mut() {
        Some(last) if last.end == page.start => last.end = page.end,
        _ => runs.push(page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;

    #[test]
    fn a_sparse_reservation_has_as_many_runs_as_touched_pages() -> std::io::Result<()> {
        let (len, pagemap) = (1_usize << 38, File::open("/proc/self/pagemap")?);
        let mut map = memmap2::MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        let start = Addr::new(map.as_ptr() as u64);
        let touched = [0, len / 3, len - 1];
        touched.iter().for_each(|&at| map[at] = 1);
        let runs = populated(&pagemap, AddrRange::sized(start, len as u64));
        let covered = |at: usize| runs.iter().any(|run| run.contains(start.saturating_add(at as u64)));
        assert!(touched.into_iter().all(covered), "{runs:?}");
        let mut regions = [ptrace::PageRegion::default()];
        if ptrace::scan_pages(&pagemap, AddrRange::sized(start, page()), &mut regions).is_ok() {
            // Three pages. They may be huge pages.
            let bytes: u64 = runs.iter().map(AddrRange::len).sum();
            assert!(runs.len() == 3 && bytes <= 3 * (32 << 20), "{runs:?}");
        }
        Ok(())
    }

    #[test]
    fn more_runs_than_one_call_finds_are_found_once() -> std::io::Result<()> {
        let (len, pagemap) = (1_usize << 38, File::open("/proc/self/pagemap")?);
        // The number of runs that the kernel finds in one step, the number that it is asked for, and others.
        for count in [511, 512, 513, 1023, 1024, 1025, 1536, 3072, 3073] {
            let mut map = memmap2::MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
            let start = Addr::new(map.as_ptr() as u64);
            let step = len / count / (64 << 10) * (64 << 10);
            (0..count).for_each(|number| map[number * step] = 1);
            let runs = populated(&pagemap, AddrRange::sized(start, len as u64));
            assert!(runs.is_sorted_by(|a, b| a.end < b.start), "{count}");
            let covered = |at: usize| runs.iter().any(|run| run.contains(start.saturating_add(at as u64)));
            assert!((0..count).all(|number| covered(number * step)), "{count}");
        }
        Ok(())
    }
}

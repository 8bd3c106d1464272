//! The parallel pass over memory, and the selection of hits.
//!
//! Memory is divided into tasks, and tasks into blocks that stay in the cache while all
//! needles are searched for. Tasks run in any order. Their results are joined by address,
//! so the answer is the same for any number of threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, PAGE, union};
use crate::limits;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::search::needle::HitEncoding;
use crate::search::pattern::Pattern;
use crate::search::prefilter::{CHUNK, MarkSet, Prefilter, near_data};
use crate::search::spans::{Spans, intersect};
use crate::search::window::{Reach, Window};
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::targets::READ_AHEAD_TASKS;
use crate::targets::Target;

/// Maximum number of encodings of a pattern.
const FORMS: usize = 2;

/// An occurrence of the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Address of the first byte.
    pub address: Addr,
    /// Length in bytes.
    pub len: u32,
    /// Encoding in which it was found.
    pub encoding: HitEncoding,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    /// The lowest hits, sorted by address.
    pub hits: Vec<Hit>,
    /// Number of all hits, stored or not.
    pub total: u64,
    /// Bytes of dumped memory searched, holes of the file included.
    pub scanned: u64,
    /// Whether there are more hits than were stored.
    pub capped: bool,
}

/// Sizes into which memory is divided, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Task: large enough that starting one costs nothing, small enough that all threads
    /// finish at about the same time.
    pub(super) task: u64,
    /// Block: fits in the second-level cache.
    pub(super) block: usize,
    /// Page, skipped if all zero.
    pub(super) page: usize,
    /// Chunk that the prefilter passes around each match.
    pub(super) chunk: usize,
    /// Number of tasks that run at once. It bounds the memory of their results.
    pub(super) wave: usize,
}

const SIZES: Sizes = Sizes { task: 4 << 20, block: 256 << 10, page: PAGE as usize, chunk: CHUNK, wave: 4096 };

/// Finds `pattern` in the memory of `target`. If `ranges` is given, a match must start in
/// one of them, but may end beyond. At most `limit` hits with the lowest addresses are
/// stored, and never more than [`limits::MAX_HITS`]. All are counted.
///
/// Text and bytes are found at any address, even overlapping. Regular expressions are
/// found as leftmost matches that don't overlap, from the start of each contiguous run of
/// memory and of each range. A match of an expression that is longer than
/// [`limits::MAX_MATCH`] may be found truncated, or not at all.
///
/// ```
/// # use std::path::Path;
/// # use coremap::process::{Options, Process};
/// # use coremap::progress::Progress;
/// use coremap::search::{HitEncoding, Pattern, PatternOptions, search};
///
/// # let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
/// let process = Process::open(core, &Options::default(), &Progress::silent())?;
/// let pattern = Pattern::new("coremap-marker-utf16", PatternOptions::default())?;
/// let found = search(process.target(), &pattern, None, Some(10), &Progress::silent());
/// assert!(found.hits.iter().any(|hit| hit.encoding == HitEncoding::Utf16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn search(
    target: &dyn Target,
    pattern: &Pattern,
    ranges: Option<&[AddrRange]>,
    limit: Option<usize>,
    progress: &Progress,
) -> SearchResult {
    search_sized(target, pattern, ranges, limit, progress, SIZES)
}

pub(super) fn search_sized(
    target: &dyn Target,
    pattern: &Pattern,
    ranges: Option<&[AddrRange]>,
    limit: Option<usize>,
    progress: &Progress,
    sizes: Sizes,
) -> SearchResult {
    let _phase = target.reads().enter(Phase::Search);
    let reach = pattern.reach();
    let spans = Spans::of(target, reach, sizes.block);
    // Joined, so that a border between two adjacent ranges has no effect.
    let ranges = ranges.map(|r| union(r.to_vec()));
    let within = |memory: &[AddrRange]| match &ranges {
        Some(ranges) => intersect(memory, ranges),
        None => memory.to_vec(),
    };
    let asked = within(spans.all());
    let scanned = asked.iter().map(AddrRange::len).saturating_sum();
    let zeros = pattern.matches_zeros();
    let todo = if zeros { asked } else { within(&spans.near_data()) };
    progress.start(todo.iter().map(AddrRange::len).saturating_sum());
    let skip = match pattern.prefilter() {
        _ if zeros => Skip::Nothing,
        Some(prefilter) => Skip::Prefilter(prefilter, sizes.chunk),
        None => Skip::Zeros(sizes.page),
    };
    let scan = Scan { target, spans, pattern, reach, skip, progress };
    target.expect_scan();
    let cap = limit.unwrap_or(usize::MAX).min(limits::MAX_HITS);
    let mut merged = Merged { hits: Vec::new(), total: 0, cap, carry: [Addr::NULL; FORMS] };
    let mut tasks = todo.iter().flat_map(|range| cut(*range, sizes.task));
    loop {
        let wave: Vec<AddrRange> = tasks.by_ref().take(sizes.wave).collect();
        if wave.is_empty() {
            break;
        }
        merged.add(&scan, &wave);
    }
    let capped = merged.total > merged.hits.len() as u64;
    SearchResult { hits: merged.hits, total: merged.total, scanned, capped }
}

pub(super) fn cut(range: AddrRange, size: u64) -> impl Iterator<Item = AddrRange> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let piece = AddrRange::sized(at, size).intersect(&range)?;
        at = piece.end;
        Some(piece)
    })
}

/// Number and extent of one needle's matches in a task.
#[derive(Clone, Copy)]
struct Tally {
    count: u64,
    /// Start of the first match. The top of the address space if there is none.
    first: Addr,
    /// End of the last match. 0 if there is none.
    end: Addr,
}

const NONE: Tally = Tally { count: 0, first: Addr::MAX, end: Addr::NULL };

/// Parts of a window that need no exact search.
enum Skip<'a> {
    /// None, because the pattern may match in zeros.
    Nothing,
    /// Zero pages of this size.
    Zeros(usize),
    /// Parts that the prefilter excludes, with its chunk size.
    Prefilter(Prefilter<'a>, usize),
}

struct Scan<'a> {
    target: &'a dyn Target,
    spans: Spans<'a>,
    pattern: &'a Pattern,
    reach: Reach,
    skip: Skip<'a>,
    progress: &'a Progress,
}

impl Scan<'_> {
    /// Searches one task. Matches of an expression start at its entry of `from` or above.
    /// Returns at most `keep` hits, the lowest, sorted.
    fn task<'s>(
        &'s self,
        task: AddrRange,
        mut from: [Addr; FORMS],
        keep: usize,
        mark_set: &mut Option<MarkSet<'s>>,
    ) -> ([Tally; FORMS], Vec<Hit>) {
        let mut tallies = [NONE; FORMS];
        let mut hits: [Vec<Hit>; FORMS] = Default::default();
        let mut candidates = Vec::new();
        self.spans.windows(task, |window| {
            self.candidates(window, mark_set, &mut candidates);
            let forms = self.pattern.needles.iter().zip(&mut tallies).zip(&mut hits).zip(&mut from);
            for (((needle, tally), hits), from) in forms {
                for candidate in &candidates {
                    let end = window.bytes.len().min(candidate.end + self.reach.after);
                    let lowest = if needle.overlaps { 0 } else { from.since(window.base) };
                    let start = lowest.clamp(candidate.start as u64, candidate.end as u64) as usize;
                    needle.find(&window.bytes[..end], start..candidate.end, window.zeros, |at, len| {
                        let address = window.base.saturating_add(at as u64);
                        if !address.is_aligned(needle.align) {
                            return;
                        }
                        tally.count += 1;
                        tally.first = tally.first.min(address);
                        tally.end = address.saturating_add(len as u64);
                        *from = tally.end;
                        if hits.len() < keep {
                            // Windows are far smaller than 4 GiB.
                            hits.push(Hit { address, len: len as u32, encoding: needle.encoding });
                        }
                    });
                }
            }
        });
        let [mut all, second] = hits;
        if !second.is_empty() {
            all.extend(second);
            all.sort_unstable_by_key(|h| (h.address, h.encoding));
            all.truncate(keep);
        }
        (tallies, all)
    }

    /// Collects the ranges of `window` in which a match may start, as far as the
    /// prefilter can exclude others. `choose_marks` has the marks that served well before.
    fn candidates<'s>(&'s self, window: &Window<'_>, mark_set: &mut Option<MarkSet<'s>>, out: &mut Vec<Range<usize>>) {
        out.clear();
        match &self.skip {
            Skip::Nothing => out.push(window.starts.clone()),
            Skip::Zeros(page) => near_data(window, *page, self.reach.back, out),
            Skip::Prefilter(prefilter, chunk) => {
                let used = mark_set.get_or_insert_with(|| prefilter.choose_marks(window.bytes));
                if !used.candidates(window.bytes, &window.starts, *chunk, out) {
                    *mark_set = None;
                }
            }
        }
    }
}

/// Results, joined by address.
struct Merged {
    hits: Vec<Hit>,
    total: u64,
    cap: usize,
    /// End of the last match of each encoding.
    carry: [Addr; FORMS],
}

impl Merged {
    fn add(&mut self, scan: &Scan<'_>, tasks: &[AddrRange]) {
        let lowest = LowestHits::new(self.cap - self.hits.len());
        let tallies: Vec<[Tally; FORMS]> = tasks
            .par_iter()
            .enumerate()
            .map_init(Default::default, |mark_set, (i, task)| {
                if let Some(later) = tasks.get(i + READ_AHEAD_TASKS) {
                    scan.target.expect_soon(*later);
                }
                let (tallies, hits) = scan.task(*task, [Addr::NULL; FORMS], lowest.limit_for(i), mark_set);
                lowest.store(i, hits);
                scan.progress.add(task.len());
                tallies
            })
            .collect();
        let mut held = lowest.into_hits();
        for (i, (task, tallies)) in tasks.iter().zip(tallies).enumerate() {
            let room = self.cap - self.hits.len();
            let mut found = (tallies, held.remove(&i).unwrap_or_default());
            // The task starts within a match of the previous one. Matches found there may
            // not count, nor the next ones that follow from them.
            let nested = scan.pattern.needles.iter().zip(&tallies).zip(self.carry);
            let nested = nested.into_iter().any(|((n, t), carry)| !n.overlaps && t.first < carry);
            let count: u64 = tallies.iter().map(|t| t.count).saturating_sum();
            let dropped = (found.1.len() as u64) < count.min(room as u64);
            if nested || dropped {
                found = scan.task(*task, self.carry, room, &mut None);
            }
            let (tallies, mut hits) = found;
            hits.truncate(room);
            self.hits.append(&mut hits);
            for (tally, carry) in tallies.iter().zip(&mut self.carry) {
                self.total.add_saturating(tally.count);
                *carry = tally.end.max(*carry);
            }
        }
    }
}

/// Stores the hits of the lowest tasks, and little more than are wanted, while tasks
/// finish in any order.
struct LowestHits {
    cap: usize,
    /// Highest task that may have one of the lowest hits.
    ceiling: AtomicUsize,
    /// Hits by task, and their total number.
    state: Mutex<(BTreeMap<usize, Vec<Hit>>, usize)>,
}

impl LowestHits {
    fn new(cap: usize) -> LowestHits {
        let ceiling = AtomicUsize::new(if cap == 0 { 0 } else { usize::MAX });
        LowestHits { cap, ceiling, state: Mutex::default() }
    }

    /// Maximum number of hits of a task that can be among the lowest.
    fn limit_for(&self, task: usize) -> usize {
        if task > self.ceiling.load(Ordering::Relaxed) { 0 } else { self.cap }
    }

    fn store(&self, task: usize, hits: Vec<Hit>) {
        if hits.is_empty() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, sum) = &mut *state;
        sum.add_saturating(hits.len());
        held.insert(task, hits);
        while let Some(last) = held.last_entry()
            && *sum - last.get().len() >= self.cap
        {
            *sum -= last.remove().len();
        }
        if *sum >= self.cap
            && let Some((&last, _)) = held.last_key_value()
        {
            self.ceiling.fetch_min(last, Ordering::Relaxed);
        }
    }

    fn into_hits(self) -> BTreeMap<usize, Vec<Hit>> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_holds_the_lowest_and_little_more() {
        let lowest = LowestHits::new(10);
        for task in [7, 3, 9, 1, 2, 0, 8] {
            let wanted = lowest.limit_for(task).min(4);
            let hit = Hit { address: Addr::new(task as u64), len: 1, encoding: HitEncoding::Hex };
            lowest.store(task, vec![hit; wanted]);
        }
        assert_eq!(lowest.limit_for(3), 0);
        let held: Vec<usize> = lowest.into_hits().into_keys().collect();
        assert_eq!(held, [0, 1, 2]);
    }
}

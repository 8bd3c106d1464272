//! Walks all pages of given runs in parallel. The scan for zero pages and the classification of contents use it. Holes
//! of a sparse core file are not read.

use rayon::prelude::*;

use crate::addr::{AddrRange, PAGE};
use crate::progress::Progress;
use crate::sums::SaturatingSum;
use crate::targets::{READ_AHEAD_TASKS, Run, Target};

/// Bytes per task: large enough that starting one costs nothing, small enough that all threads finish at about the
/// same time.
const CHUNK: u64 = 4 << 20;

/// An item that a walk visits.
pub(super) enum PageRun<'a> {
    /// Whole pages that are a hole of the file, so all zero.
    Hole,
    /// One page, or the incomplete last page of a run.
    Page(&'a [u8]),
}

/// Walks the pages of `runs`, which are counted from the start of each run. Runs are divided into chunks, and `wanted`
/// selects chunks by address. For each chunk, `begin` makes a state from the index of its run and its addresses.
/// `visit` gets the state with each part, by address, and returns whether the part is all zero. Chunks without data are
/// released: a core can have gigabytes of zeros, and pages that are mapped count as memory of this process. Returns
/// the states in the order of the runs.
pub(super) fn walk<S: Send>(
    target: &dyn Target,
    runs: &[Run<'_>],
    progress: &Progress,
    wanted: impl Fn(AddrRange) -> bool,
    begin: impl Fn(usize, AddrRange) -> S + Sync,
    visit: impl Fn(&mut S, AddrRange, PageRun<'_>) -> bool + Sync,
) -> Vec<S> {
    let mut chunks: Vec<(usize, Run<'_>)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let pieces = run.bytes.chunks(CHUNK as usize).zip((0..).step_by(CHUNK as usize));
        chunks.extend(pieces.filter_map(|(bytes, at)| {
            let range = AddrRange::sized(run.range.start.saturating_add(at), bytes.len() as u64);
            wanted(range).then_some((i, Run { range, offset: run.offset + at, bytes }))
        }));
    }
    progress.start(chunks.iter().map(|(_, chunk)| chunk.range.len()).saturating_sum());
    let extents = target.extents();
    let walk = |(number, (i, chunk)): (usize, &(usize, Run<'_>))| {
        if target.reads().deadline().has_passed() {
            return begin(*i, chunk.range);
        }
        if let Some((_, later)) = chunks.get(number + READ_AHEAD_TASKS) {
            target.expect_soon(later.range);
        }
        let mut state = begin(*i, chunk.range);
        let end = chunk.offset + chunk.range.len();
        let mut data = extents.within(chunk.offset..end);
        let mut extent = data.next();
        let mut at = 0;
        let (mut zero, mut touched) = (true, false);
        while at < chunk.range.len() {
            let offset = chunk.offset + at;
            while extent.as_ref().is_some_and(|e| e.end <= offset) {
                extent = data.next();
            }
            // Whole pages before the next extent are a hole.
            let hole = extent.as_ref().map_or(end, |e| e.start.max(offset)) - offset;
            let (len, part) = if hole >= PAGE {
                (hole / PAGE * PAGE, PageRun::Hole)
            } else {
                let len = PAGE.min(chunk.range.len() - at);
                let Some(page) = chunk.bytes.get(at as usize..(at + len) as usize) else { break };
                (len, PageRun::Page(page))
            };
            touched |= matches!(part, PageRun::Page(_));
            zero &= visit(&mut state, AddrRange::sized(chunk.range.start.saturating_add(at), len), part);
            at += len;
        }
        if zero && touched {
            target.forget(chunk.offset..end);
        }
        progress.add(chunk.range.len());
        state
    };
    chunks.par_iter().enumerate().map(walk).collect()
}

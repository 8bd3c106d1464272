//! All pages of given runs, by many threads at memory speed: the walk that the scan for zero pages and the look
//! at what fills memory share. Holes of a sparse core file are passed over without being read.

use rayon::prelude::*;

use crate::addr::{AddrRange, PAGE};
use crate::progress::Progress;
use crate::targets::{AHEAD, Run, Target};

/// Bytes one task walks: large enough that starting it costs nothing, small
/// enough that two threads finish together.
const CHUNK: u64 = 4 << 20;

/// What a walk comes to.
pub(super) enum Part<'a> {
    /// Whole pages that are a hole of the file: zeros.
    Hole,
    /// One page, or what is left of one at the end of a run.
    Page(&'a [u8]),
}

/// Walk the pages of `runs`, counted from the start of each. Of each chunk of a run that `wanted` says yes to, `begin`
/// makes a state, by the run's place in the list and the chunk's addresses, and `visit` gets it with each part in order
/// of address. The states come back in the order of the runs.
pub(super) fn walk<S: Send>(
    target: &dyn Target,
    runs: &[Run<'_>],
    progress: &Progress,
    wanted: impl Fn(AddrRange) -> bool,
    begin: impl Fn(usize, AddrRange) -> S + Sync,
    visit: impl Fn(&mut S, AddrRange, Part<'_>) + Sync,
) -> Vec<S> {
    let mut chunks: Vec<(usize, Run<'_>)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let pieces = run.bytes.chunks(CHUNK as usize).zip((0..).step_by(CHUNK as usize));
        chunks.extend(pieces.filter_map(|(bytes, at)| {
            let range = AddrRange::sized(run.range.start.saturating_add(at), bytes.len() as u64);
            wanted(range).then_some((i, Run { range, offset: run.offset + at, bytes }))
        }));
    }
    progress.start(chunks.iter().map(|(_, chunk)| chunk.range.len()).sum());
    let extents = target.extents();
    let walk = |(number, (i, chunk)): (usize, &(usize, Run<'_>))| {
        if let Some((_, later)) = chunks.get(number + AHEAD) {
            target.expect_soon(later.range);
        }
        let mut state = begin(*i, chunk.range);
        let end = chunk.offset + chunk.range.len();
        let mut data = extents.within(chunk.offset..end);
        let mut extent = data.next();
        let mut at = 0;
        while at < chunk.range.len() {
            let offset = chunk.offset + at;
            while extent.as_ref().is_some_and(|e| e.end <= offset) {
                extent = data.next();
            }
            // Whole pages up to the next data are a hole.
            let hole = extent.as_ref().map_or(end, |e| e.start.max(offset)) - offset;
            let (len, part) = if hole >= PAGE {
                (hole / PAGE * PAGE, Part::Hole)
            } else {
                let len = PAGE.min(chunk.range.len() - at);
                let Some(page) = chunk.bytes.get(at as usize..(at + len) as usize) else { break };
                (len, Part::Page(page))
            };
            visit(&mut state, AddrRange::sized(chunk.range.start.saturating_add(at), len), part);
            at += len;
        }
        progress.add(chunk.range.len());
        state
    };
    chunks.par_iter().enumerate().map(walk).collect()
}

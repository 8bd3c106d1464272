//! Words of dumped memory that lead into given addresses: one parallel pass at
//! memory speed, holes of the file skipped.

use byteorder::{ByteOrder, LittleEndian};
use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, WORD};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::targets::Target;

/// Bytes one task scans.
const CHUNK: u64 = 4 << 20;

/// Tasks in the air at once: bounds what their states hold together.
const WAVE: usize = 16;

/// Parts of which the scan is less than this share of the file are asked for one by
/// one.
const FEW: u64 = 4;

/// Aligned words that hold data.
struct Task<'c> {
    start: Addr,
    bytes: &'c [u8],
}

impl Task<'_> {
    fn range(&self) -> AddrRange {
        AddrRange::sized(self.start, self.bytes.len() as u64)
    }
}

/// Visit each aligned word in `within` (sorted, disjoint) whose value lies in
/// `values`, with its place. Each task has a state of its own; `join` gets them
/// in the order of addresses. Returns how many bytes of dumped memory were
/// looked through.
///
/// Words in holes of the file are zero: they are not visited, whatever
/// `values` is.
pub fn pointers<S: Default + Send>(
    target: &dyn Target,
    within: &[AddrRange],
    values: AddrRange,
    progress: &Progress,
    visit: impl Fn(&mut S, Addr, Addr) + Sync,
    mut join: impl FnMut(S),
) -> u64 {
    let _phase = target.reads().enter_if_none(Phase::Pointers);
    let (tasks, scanned) = tasks(target, within);
    let bytes = tasks.iter().map(|t| t.bytes.len() as u64).sum();
    progress.start(bytes);
    // Told to expect a scan, the kernel reads megabytes past the end of each part.
    let parts = bytes < target.facts().size / FEW;
    if !parts {
        target.expect_scan();
    }
    let (low, span) = (values.start.get(), values.len());
    let mut next = tasks.chunks(WAVE);
    let expect = |wave: &[Task<'_>]| match parts {
        true => target.expect(wave.iter().map(Task::range)),
        false => wave.iter().for_each(|task| target.expect_soon(task.range())),
    };
    next.next().into_iter().for_each(expect);
    for wave in tasks.chunks(WAVE) {
        next.next().into_iter().for_each(expect);
        let states: Vec<S> = wave
            .par_iter()
            .map(|task| {
                let mut state = S::default();
                for (i, word) in task.bytes.as_chunks::<{ WORD as usize }>().0.iter().enumerate() {
                    let value = LittleEndian::read_u64(word);
                    if value.wrapping_sub(low) < span {
                        visit(&mut state, task.start.saturating_add(WORD * i as u64), Addr::new(value));
                    }
                }
                progress.add(task.bytes.len() as u64);
                state
            })
            .collect();
        states.into_iter().for_each(&mut join);
    }
    scanned
}

/// Cut what the core holds of `within` into tasks, in order.
fn tasks<'c>(target: &'c dyn Target, within: &[AddrRange]) -> (Vec<Task<'c>>, u64) {
    let extents = target.extents();
    let mut out = Vec::new();
    let mut scanned = 0;
    for run in within.iter().flat_map(|range| target.dumped_runs(*range)) {
        scanned += run.range.len();
        let skip = run.range.start.align_up(WORD).since(run.range.start);
        // What is done of the run: a word may begin in one extent and end in the next.
        let mut done = skip;
        for extent in extents.within(run.offset..run.offset + run.range.len()) {
            let mut from = ((extent.start - run.offset).saturating_sub(skip) / WORD * WORD + skip).max(done);
            let to = (extent.end - run.offset).saturating_sub(skip).next_multiple_of(WORD) + skip;
            let to = to.min(run.range.len());
            while from < to {
                let end = (from + CHUNK).min(to);
                let Some(bytes) = run.bytes.get(from as usize..end as usize) else { break };
                out.push(Task { start: run.range.start.saturating_add(from), bytes });
                from = end;
            }
            done = done.max(to);
        }
    }
    (out, scanned)
}

//! Finds words of dumped memory that point into a given range, in one parallel pass.
//! Holes of the file are skipped.

use byteorder::{ByteOrder, LittleEndian};
use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, WORD};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::sums::SaturatingSum;
use crate::targets::Target;

/// Bytes per task.
const CHUNK: u64 = 4 << 20;

/// Number of tasks that run at once. It bounds the memory that their states use.
const WAVE: usize = 16;

/// A range of aligned words that is no hole.
struct Task<'c> {
    start: Addr,
    /// Offset in the target.
    offset: u64,
    bytes: &'c [u8],
}

impl Task<'_> {
    fn range(&self) -> AddrRange {
        AddrRange::sized(self.start, self.bytes.len() as u64)
    }
}

/// Visits each aligned word in `within` (sorted, disjoint) whose value is in `values`,
/// with its address and its value. Tags of pointers are removed from values. Each task has
/// its own state, and `join` gets the states in address order. Returns the number of dumped
/// bytes searched.
///
/// Words in holes of the file are zero. They are not visited, even if `values` contains
/// zero.
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
    let bytes = tasks.iter().map(|t| t.bytes.len() as u64).saturating_sum();
    progress.start(bytes);
    let parts = !target.expect_scan_of(bytes);
    let (low, span) = (values.start.get(), values.len());
    let arch = target.facts().arch;
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
                let mut all = 0;
                for (i, word) in task.bytes.as_chunks::<{ WORD as usize }>().0.iter().enumerate() {
                    let value = arch.address_in(LittleEndian::read_u64(word));
                    all |= value;
                    if value.wrapping_sub(low) < span {
                        visit(&mut state, task.start.saturating_add(WORD * i as u64), Addr::new(value));
                    }
                }
                if all == 0 {
                    target.forget(task.offset..task.offset + task.bytes.len() as u64);
                }
                progress.add(task.bytes.len() as u64);
                state
            })
            .collect();
        states.into_iter().for_each(&mut join);
    }
    scanned
}

/// Divides the dumped bytes of `within` into tasks, in order. Also returns their number.
fn tasks<'c>(target: &'c dyn Target, within: &[AddrRange]) -> (Vec<Task<'c>>, u64) {
    let extents = target.extents();
    let mut out = Vec::new();
    let mut scanned = 0;
    for run in within.iter().flat_map(|range| target.dumped_runs(*range)) {
        scanned += run.range.len();
        let skip = run.range.start.align_up(WORD).since(run.range.start);
        // Offset up to which the run is divided. A word may begin in one extent and end
        // in the next.
        let mut done = skip;
        for extent in extents.within(run.offset..run.offset + run.range.len()) {
            let mut from = ((extent.start - run.offset).saturating_sub(skip) / WORD * WORD + skip).max(done);
            let to = (extent.end - run.offset).saturating_sub(skip).next_multiple_of(WORD) + skip;
            let to = to.min(run.range.len());
            while from < to {
                let end = (from + CHUNK).min(to);
                let Some(bytes) = run.bytes.get(from as usize..end as usize) else { break };
                out.push(Task { start: run.range.start.saturating_add(from), offset: run.offset + from, bytes });
                from = end;
            }
            done = done.max(to);
        }
    }
    (out, scanned)
}

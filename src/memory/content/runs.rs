//! All pages of given ranges, put together where what lies side by side is filled alike.

use rayon::prelude::*;

use crate::addr::AddrRange;
use crate::memory::content::{Content, Words};
use crate::memory::scan::PAGE;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::range_map::Ranged;
use crate::targets::{AHEAD, Run, Target};

/// Bytes one task looks at.
const CHUNK: u64 = 4 << 20;

/// Pages that lie side by side and are filled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Where they are, all of it in the core.
    pub range: AddrRange,
    /// With what.
    pub content: Content,
}

impl Ranged for Filled {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// What fills the dumped pages of `within` (sorted, disjoint), by address: runs of pages that are filled alike.
/// Runs end where a range does. What is not in the core is in none.
pub fn filled(target: &dyn Target, within: &[AddrRange], words: &dyn Words, progress: &Progress) -> Vec<Filled> {
    let _phase = target.reads().enter_if_none(Phase::Anonymous);
    let extents = target.extents();
    let mut chunks: Vec<(usize, Run<'_>)> = Vec::new();
    for (i, range) in within.iter().enumerate() {
        for run in target.dumped_runs(*range) {
            let mut at = 0;
            while at < run.range.len() {
                let len = CHUNK.min(run.range.len() - at);
                let Some(bytes) = run.bytes.get(at as usize..(at + len) as usize) else { break };
                let range = AddrRange::sized(run.range.start.saturating_add(at), len);
                chunks.push((i, Run { range, offset: run.offset + at, bytes }));
                at += len;
            }
        }
    }
    progress.start(chunks.iter().map(|(_, run)| run.range.len()).sum());
    let parts: Vec<Vec<Filled>> = chunks
        .par_iter()
        .enumerate()
        .map(|(i, (_, run))| {
            if let Some((_, later)) = chunks.get(i + AHEAD) {
                target.expect_soon(later.range);
            }
            let mut out = Vec::new();
            let end = run.offset + run.range.len();
            let mut data = extents.within(run.offset..end);
            let mut extent = data.next();
            let mut at = 0;
            while at < run.range.len() {
                let offset = run.offset + at;
                while extent.as_ref().is_some_and(|e| e.end <= offset) {
                    extent = data.next();
                }
                let hole = extent.as_ref().map_or(end, |e| e.start.max(offset)) - offset;
                let (len, content) = if hole >= PAGE {
                    (hole / PAGE * PAGE, Content::Zero)
                } else {
                    let len = PAGE.min(run.range.len() - at);
                    let page = run.bytes.get(at as usize..(at + len) as usize).unwrap_or_default();
                    (len, Content::of_page(page, words))
                };
                push(&mut out, Filled { range: AddrRange::sized(run.range.start.saturating_add(at), len), content });
                at += len;
            }
            progress.add(run.range.len());
            out
        })
        .collect();
    let mut out: Vec<Filled> = Vec::new();
    let mut before = None;
    for ((i, _), part) in chunks.iter().zip(parts) {
        if before == Some(*i) {
            part.into_iter().for_each(|run| push(&mut out, run));
        } else {
            out.extend(part);
        }
        before = Some(*i);
    }
    out
}

/// Add a run, to the last one where it goes on.
fn push(out: &mut Vec<Filled>, run: Filled) {
    match out.last_mut() {
        Some(last) if last.content == run.content && last.range.end == run.range.start => {
            last.range.end = run.range.end
        }
        _ => out.push(run),
    }
}

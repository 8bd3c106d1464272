//! Classifies all pages of given ranges and joins adjacent pages of equal content.

use crate::addr::AddrRange;
use crate::memory::content::{AddressClassifier, Content};
use crate::memory::pages::{PageRun, walk};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::range_map::Ranged;
use crate::targets::{Run, Target};

/// A run of adjacent pages with equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Addresses, all in the core.
    pub range: AddrRange,
    /// Content of each of its pages.
    pub content: Content,
}

impl Ranged for Filled {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Returns runs of equal content over the dumped pages of `within` (sorted, disjoint), by address. A run ends where a
/// range of `within` ends. Bytes that are not in the core are in no run.
pub fn filled(
    target: &dyn Target,
    within: &[AddrRange],
    words: &dyn AddressClassifier,
    progress: &Progress,
) -> Vec<Filled> {
    let _phase = target.reads().enter_if_none(Phase::Anonymous);
    let dumped =
        within.iter().enumerate().flat_map(|(i, range)| target.dumped_runs(*range).into_iter().map(move |r| (i, r)));
    let (of, runs): (Vec<usize>, Vec<Run<'_>>) = dumped.unzip();
    let parts = walk(
        target,
        &runs,
        progress,
        |_| true,
        |run, _| (run, Vec::new()),
        |(_, out), range, part| {
            let content = match part {
                PageRun::Hole => Content::Zero,
                PageRun::Page(page) => Content::of_page(page, words),
            };
            push(out, Filled { range, content });
            content == Content::Zero
        },
    );
    let mut out: Vec<Filled> = Vec::new();
    let mut before = None;
    for (run, part) in parts {
        let of = of.get(run);
        if before == of {
            part.into_iter().for_each(|run| push(&mut out, run));
        } else {
            out.extend(part);
        }
        before = of;
    }
    out
}

/// Appends a run, or extends the last one if it continues it.
fn push(out: &mut Vec<Filled>, run: Filled) {
    match out.last_mut() {
        Some(last) if last.content == run.content && last.range.end == run.range.start => {
            last.range.end = run.range.end
        }
        _ => out.push(run),
    }
}

//! All pages of given ranges, put together where what lies side by side is filled alike.

use crate::addr::AddrRange;
use crate::memory::content::{Content, Words};
use crate::memory::pages::{Part, walk};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::range_map::Ranged;
use crate::targets::{Run, Target};

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
                Part::Hole => Content::Zero,
                Part::Page(page) => Content::of_page(page, words),
            };
            push(out, Filled { range, content });
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

/// Add a run, to the last one where it goes on.
fn push(out: &mut Vec<Filled>, run: Filled) {
    match out.last_mut() {
        Some(last) if last.content == run.content && last.range.end == run.range.start => {
            last.range.end = run.range.end
        }
        _ => out.push(run),
    }
}

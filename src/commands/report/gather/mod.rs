//! Collects the contents of a page: the answers of other commands, then cut to what fits in a page.

mod cut;
mod limits;
mod secret;

pub use cut::LeftOut;
pub(super) use cut::{cut, cut_diff, shorten};
pub(super) use limits::Limits;

use serde::Serialize;

use crate::analysis::zero::ZeroMap;
use crate::commands::anon::AnonReport;
use crate::commands::dotnet::heap::HeapReport;
use crate::commands::heapstat::HeapStatReport;
use crate::commands::holders::HoldersReport;
use crate::commands::info::InfoReport;
use crate::commands::leaks::LeaksReport;
use crate::commands::malloc::MallocReport;
use crate::commands::regions::RegionsReport;
use crate::commands::retained::{self, DominatorLimits, DominatorTree, RetainedReport};
use crate::commands::stacks::StacksReport;
use crate::commands::summary::SummaryReport;
use crate::commands::threads::ThreadsReport;
use crate::commands::triage::TriageReport;
use crate::commands::{self, HeapStatOptions, LeaksOptions, MallocOptions, RegionOptions, RetainedOptions};
use crate::commands::{ThreadOptions, TriageOptions};
use crate::progress::Progress;
use crate::session::Session;

/// Answers about one process, named by command. `None` if the process has no such data.
#[derive(Clone, Serialize)]
pub(super) struct Answers {
    pub(super) info: InfoReport,
    pub(super) triage: TriageReport,
    pub(super) summary: SummaryReport,
    pub(super) regions: RegionsReport,
    pub(super) stacks: StacksReport,
    pub(super) threads: ThreadsReport,
    pub(super) heapstat: Option<HeapStatReport>,
    pub(super) retained: Option<RetainedReport>,
    pub(super) dominators: Option<DominatorTree>,
    pub(super) heap: Option<HeapReport>,
    pub(super) malloc: Option<MallocReport>,
    pub(super) leaks: Option<LeaksReport>,
    pub(super) holders: Option<HoldersReport>,
    pub(super) anon: AnonReport,
    /// Bytes of each region in pages that are not all zero, in the order of the regions.
    #[serde(skip)]
    pub(super) written: Vec<u64>,
}

pub(super) fn ask(session: &Session<'_>, limits: &Limits, show_data: bool, progress: &Progress) -> Answers {
    let managed = session.runtimes().iter().any(|runtime| runtime.heap().is_some());
    let map = session.map();
    let zeros = ZeroMap::scan(session, None, progress);
    let written = zeros.by_region(map.regions.len()).iter().map(|stat| stat.written).collect();
    drop(zeros);
    let malloc = commands::malloc(session, &MallocOptions::default(), progress);
    let has_blocks = malloc.total.committed > 0;
    let dominators =
        DominatorLimits { nodes: limits.dominators, children: limits.children, least: limits.least_thousandths };
    let info = commands::info(session, show_data);
    // These four use the same graph of the heap. It is large, so it is dropped before the others begin.
    let graphs = session.retain_graphs();
    let triage = commands::triage(session, &TriageOptions::default(), progress);
    let retained =
        managed.then(|| commands::retained(session, &RetainedOptions { top: limits.types, ..Default::default() }));
    let dominators = managed.then(|| retained::dominator_tree(session, dominators));
    let holders = managed.then(|| commands::holders(session, Some(limits.holders), progress));
    drop(graphs);
    let mut answers = Answers {
        info,
        triage,
        summary: commands::summary(session, true, progress),
        regions: commands::regions(session, &RegionOptions::default(), progress),
        stacks: commands::stacks(session, &commands::doing(session), true, progress),
        threads: commands::threads(session, ThreadOptions { group: true, ..ThreadOptions::default() }),
        heapstat: managed
            .then(|| commands::heapstat(session, &HeapStatOptions { strings: true, ..Default::default() }, progress)),
        retained,
        dominators,
        heap: managed.then(|| commands::heap(session, true)).filter(|heap| heap.gc.is_some()),
        leaks: has_blocks.then(|| commands::leaks(session, &LeaksOptions::default(), progress)),
        holders,
        malloc: Some(malloc).filter(|malloc| malloc.total.committed > 0 || malloc.pymalloc.is_some()),
        anon: commands::anon(session, progress),
        written,
    };
    if !show_data {
        secret::withhold(&mut answers);
    }
    answers
}

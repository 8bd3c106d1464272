//! One sample of a process: the reports that the lists are built from, each made on demand.

use std::sync::Arc;
use std::time::Duration;

use coremap::commands::heapstat::HeapStatReport;
use coremap::commands::malloc::MallocReport;
use coremap::commands::regions::RegionsReport;
use coremap::commands::retained::RetainedReport;
use coremap::commands::stacks::StacksReport;
use coremap::commands::summary::SummaryReport;
use coremap::commands::threads::ThreadsReport;
use coremap::commands::triage::TriageReport;
use coremap::commands::{
    self, HeapStatOptions, MallocOptions, RegionOptions, RetainedOptions, ThreadOptions, TriageOptions, doing, envelope,
};
use coremap::diag::Warning;
use coremap::progress::Progress;
use coremap::report::CoreRow;
use coremap::session::Session;
use coremap::targets::Producer;

/// A part of a sample: what one tab needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Kinds and regions, without reading pages.
    Map,
    /// Kinds and regions with zero pages counted, which reads all memory.
    Written,
    /// Findings of triage, which reads all memory.
    Findings,
    /// Objects by type, which reads the whole managed heap.
    Types,
    Threads,
    /// malloc's heaps.
    Malloc,
    /// Objects by retained bytes, which follows all references.
    Retained,
}

impl Part {
    /// All parts, in the order in which they are made for a core: the most important first, then cheap ones.
    pub(super) const ALL: [Part; 7] =
        [Part::Map, Part::Findings, Part::Threads, Part::Written, Part::Types, Part::Malloc, Part::Retained];
}

/// Time limit for `triage`, equal to the command's default.
const BUDGET: Duration = Duration::from_secs(60);

/// Maximum number of types and of objects in the list of retained sizes.
const MAX_RETAINED: usize = 500;

/// Kinds, and the regions that they sum up.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) summary: SummaryReport,
    pub(super) regions: RegionsReport,
}

/// Threads and their stacks.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) stacks: StacksReport,
    /// Equal stacks merged. The frames of each thread are in its group.
    pub(super) threads: ThreadsReport,
}

/// The reports of a sample that have been made so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    pub(super) core: Option<Arc<CoreRow>>,
    /// Name of the program, as the kernel has it.
    pub(super) name: Option<String>,
    pub(super) map: Option<Arc<Map>>,
    pub(super) findings: Option<Arc<TriageReport>>,
    pub(super) types: Option<Arc<HeapStatReport>>,
    pub(super) threads: Option<Arc<Threads>>,
    pub(super) malloc: Option<Arc<MallocReport>>,
    pub(super) retained: Option<Arc<RetainedReport>>,
    pub(super) warnings: Arc<Vec<Warning>>,
}

impl Look {
    pub(super) fn make(&mut self, part: Part, session: &Session<'_>, progress: &Progress) {
        match part {
            Part::Map | Part::Written => {
                let options = RegionOptions { zero_fill: part == Part::Written, ..RegionOptions::default() };
                self.map = Some(Arc::new(Map {
                    summary: commands::summary(session, false, progress),
                    regions: commands::regions(session, &options, progress),
                }));
            }
            Part::Findings => {
                let options = TriageOptions { budget: Some(BUDGET), show_data: false };
                self.findings = Some(Arc::new(commands::triage(session, &options, progress)));
            }
            Part::Types => {
                self.types = Some(Arc::new(commands::heapstat(session, &HeapStatOptions::default(), progress)));
            }
            Part::Threads => {
                let options = ThreadOptions { group: true, ..ThreadOptions::default() };
                // Zero pages of stacks are counted only in cores: a process would be stopped for longer.
                let zero_fill = session.process.facts().producer != Producer::Live;
                self.threads = Some(Arc::new(Threads {
                    stacks: commands::stacks(session, &doing(session), zero_fill, progress),
                    threads: commands::threads(session, options),
                }));
            }
            Part::Malloc => {
                self.malloc = Some(Arc::new(commands::malloc(session, &MallocOptions::default(), progress)));
            }
            Part::Retained => {
                let options = RetainedOptions { top: MAX_RETAINED, ..RetainedOptions::default() };
                self.retained = Some(Arc::new(commands::retained(session, &options)));
            }
        }
    }

    /// Records the process and the warnings. A stopped process resumes.
    pub(super) fn finish(&mut self, session: &Session<'_>) {
        let whole = envelope("explore", session, ());
        self.core = Some(Arc::new(whole.core));
        self.warnings = Arc::new(whole.warnings);
        let name = session.process.facts().process.as_ref().map(|process| process.name.clone());
        self.name = name.filter(|name| !name.is_empty());
    }

    /// Takes over the parts that `newer` has.
    pub(super) fn update(&mut self, newer: Look) {
        self.core = newer.core.or(self.core.take());
        self.name = newer.name.or(self.name.take());
        self.map = newer.map.or(self.map.take());
        self.findings = newer.findings.or(self.findings.take());
        self.types = newer.types.or(self.types.take());
        self.threads = newer.threads.or(self.threads.take());
        self.malloc = newer.malloc.or(self.malloc.take());
        self.retained = newer.retained.or(self.retained.take());
        self.warnings = newer.warnings;
    }

    /// Returns the previous state of the parts that `newer` has.
    pub(super) fn replaced_by(&self, newer: &Look) -> Look {
        Look {
            map: self.map.clone().filter(|_| newer.map.is_some()),
            types: self.types.clone().filter(|_| newer.types.is_some()),
            threads: self.threads.clone().filter(|_| newer.threads.is_some()),
            malloc: self.malloc.clone().filter(|_| newer.malloc.is_some()),
            retained: self.retained.clone().filter(|_| newer.retained.is_some()),
            ..Look::default()
        }
    }
}

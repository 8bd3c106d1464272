//! Findings from Go's own structures: a heap near its limit, and the code that allocated most of it.

use crate::facts::{Finding, Severity};
use crate::image::file_name;
use crate::map::Confidence;
use crate::runtimes::api::{AllocationSite, KindBytes, ManagedRuntime, MethodRole, RetainedSizes, RuntimeFindings};
use crate::runtimes::go::{Go, timers};
use crate::units::{exact, round};

/// Minimum share of the memory limit, in per cent, that live objects and stacks use before a finding reports it.
const NEAR: u64 = 80;

/// Number of stacks that a finding names.
const SITES: usize = 3;

/// Minimum share of the heap, in per cent, that the profile must explain to be reported.
const EXPLAINED: u64 = 10;

impl RuntimeFindings for Go<'_> {
    fn walks(&self) -> bool {
        true
    }

    fn find(&self, _used: &KindBytes, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
        [near_limit(self), sites(self), timers::finding(self, retained)].into_iter().flatten().collect()
    }
}

/// Reports live memory near the limit. Memory that the next collection frees does not count, since a heap may grow up
/// to its limit on purpose.
fn near_limit(go: &Go<'_>) -> Option<Finding> {
    let figures = go.figures();
    let limit = figures.limit.filter(|limit| *limit > 0)?;
    let stacks = figures.get("StackInuse")?;
    let live = figures.marked?.min(figures.heap_alloc).saturating_add(stacks);
    let share = live.saturating_mul(100) / limit;
    let collections = u64::from(figures.collections?);
    if share < NEAR {
        return None;
    }
    let text = format!(
        "The memory limit (GOMEMLIMIT) of Go is {}, and {share} % of it is in use by objects that survived the last \
         collection and by stacks ({}): the collector runs all the time. It ran {} times so far.",
        round(limit),
        round(live),
        exact(collections)
    );
    let evidence = "gcController.memoryLimit, heapMarked and the spans of stacks";
    Some(Finding::new("memory-limit", Severity::Warning, text, evidence).known(Confidence::Exact).more("heap"))
}

/// Reports the stacks that allocated most of the heap in use.
fn sites(go: &Go<'_>) -> Option<Finding> {
    let profile = go.allocation_profile()?;
    let used = |site: &AllocationSite| site.scaled.inuse_bytes;
    let total = profile.sites.iter().fold(0u64, |sum, site| sum.saturating_add(used(site)));
    let heap = go.figures().heap_alloc;
    // If the profiler is off, it has only a few records from the program's start.
    if total.saturating_mul(100) < heap.saturating_mul(EXPLAINED) || total == 0 {
        return None;
    }
    let name = |site: &AllocationSite| {
        let own = site.frames.iter().find(|frame| frame.method.role == MethodRole::Program).or(site.frames.first())?;
        let source = &own.position.source;
        let at = source.file.as_deref().zip(source.line);
        let at = at.map_or_else(String::new, |(file, line)| format!(" ({}:{line})", file_name(file)));
        Some(format!("{} in {}{at}", round(used(site)), own.method.name))
    };
    let named: Vec<String> = profile.sites.iter().filter_map(name).take(SITES).collect();
    let text = format!("Most of the objects in use were allocated by: {}.", named.join("; "));
    let evidence = "the heap profile that the runtime samples (estimates, as of the last collection)";
    let finding = Finding::new("allocation-sites", Severity::Info, text, evidence).known(Confidence::Derived);
    let first = profile.sites.first().map_or(0, used).min(heap);
    Some(finding.about(first).within("managed-heap").more("allocations"))
}

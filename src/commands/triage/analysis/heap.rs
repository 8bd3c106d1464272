//! Heaps of managed runtimes: their objects, what retains them, and waste.

use crate::analysis::roots::with_retained;
use crate::commands::dotnet;
use crate::commands::heapstat::{self, HeapStatOptions, HeapStatReport};
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::buffers;
use crate::commands::triage::analysis::suspects::suspects;
use crate::commands::triage::analysis::tally::{Share, Subject, Tally};
use crate::commands::triage::analysis::{Found, biggest, counted, plain};
use crate::map::Confidence;
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::runtimes::api::FREE_NAME;
use crate::session::Session;
use crate::units::round;

/// Bytes of a heap processed per second by each kind of pass. At most half of the rates measured on real heaps of some
/// gigabytes (docs/performance.md).
const COUNTED: u64 = 1 << 30;
const STRINGS: u64 = 400 << 20;
const GRAPH: u64 = 200 << 20;

/// Minimum share of a heap in percent, and minimum bytes, of waste to be reported.
const MUCH: u64 = 20;
const LARGE: u64 = 16 << 20;

/// Maximum number of types named.
const TYPES: usize = 4;

pub(super) fn heap(session: &Session<'_>, tally: &Tally, budget: &mut Budget, progress: &Progress, found: &mut Found) {
    let runtimes = session.runtimes();
    // If all objects come from malloc, the heap has no memory of its own.
    let nothing = Share::default();
    let share = match tally.shares.get(&Subject::ManagedHeap) {
        Some(share) => share,
        None if runtimes.iter().any(|runtime| runtime.heap().is_some()) => &nothing,
        None => return,
    };
    found.findings.extend(dotnet::findings::events(session));
    let names: Vec<String> = runtimes.iter().map(|runtime| runtime.label()).collect();
    let title = format!("Managed heap of {}", names.join(" and "));
    let sentence = |text: String| {
        plain("managed-heap", text, "the runtime's lists of segments, regions or arenas", share.written)
            .known(Confidence::Exact)
    };
    let by_kind = tally.by_kind(session);
    for of_runtime in runtimes.iter().filter_map(|runtime| runtime.findings()) {
        if !of_runtime.walks() || budget.allows("containers and caches", share.in_core, STRINGS) {
            found.findings.extend(of_runtime.find(&by_kind));
        }
    }
    if runtimes.iter().all(|runtime| runtime.heap().is_none())
        || !budget.allows("objects by type", share.in_core, COUNTED)
    {
        found.findings.push(sentence(format!("{title}: {} written.", round(share.written))).more("heap"));
        return;
    }
    let strings = budget.allows("equal strings", share.written, STRINGS);
    let report = heapstat::heapstat(session, &HeapStatOptions { strings, ..HeapStatOptions::default() }, progress);
    let types = report.types.iter().filter(|t| &*t.name != FREE_NAME).map(|t| (t.name.to_string(), t.size)).collect();
    let objects = report.total.objects.saturating_sub(report.free.objects);
    let size = report.total.size.saturating_sub(report.free.size);
    let text = format!(
        "{title}: {} in {}, plus {} free between objects. Largest types: {}.",
        round(size),
        counted(objects, "object", "objects"),
        round(report.free.size),
        biggest(types, TYPES)
    );
    found.findings.push(sentence(text).more("heapstat"));
    // For small blocks the runtime itself reports what is free.
    if !runtimes.iter().any(|runtime| runtime.small_blocks().is_some_and(|blocks| blocks.sums().is_some())) {
        found.findings.extend(fragmented(&report));
    }
    found.findings.extend(equal_strings(&report));
    found.findings.extend(dotnet::findings::of_types(session, &report.types, size));
    let mut buffers = buffers::sums(session);
    if budget.allows("retained sizes", share.written, GRAPH) {
        let mut left = runtimes.iter();
        with_retained(session, |retained, names, rooted| {
            // That function skips runtimes without a heap.
            if let (Some(finding), Some(runtime)) = (&mut buffers, left.find(|r| r.heap().is_some())) {
                buffers::tell_keepers(finding, *runtime, retained, names);
            }
            found.findings.extend(suspects(retained, names, rooted, budget));
            let dead = retained.unreachable().values().fold(0u64, |sum, tally| sum.saturating_add(tally.size));
            found.findings.extend(unreachable(dead, retained.total.size));
        });
    }
    found.findings.extend(buffers);
    found.findings.extend(dotnet::findings::of_session(
        session,
        budget.allows("exceptions, finalizers and async methods", share.written, COUNTED),
        progress,
    ));
}

fn is_much(bytes: u64, whole: u64) -> bool {
    bytes >= LARGE && bytes.saturating_mul(100) >= whole.saturating_mul(MUCH)
}

fn fragmented(report: &HeapStatReport) -> Option<Finding> {
    let free = report.types.iter().find(|t| &*t.name == FREE_NAME)?;
    if !is_much(free.size, report.total.size) {
        return None;
    }
    let parts = free.generations.iter().map(|g| (g.generation.to_string(), g.size)).collect();
    let text = format!(
        "Fragmentation: {} of the managed heap is free space between objects ({}). Pinned objects or a large object heap that \
         is not compacted cause this.",
        round(free.size),
        biggest(parts, TYPES)
    );
    let finding = Finding::new("heap-fragmentation", Severity::Warning, text, "objects of type Free, by generation");
    Some(finding.about(free.size).known(Confidence::Exact).more("heapstat --type Free").within("managed-heap"))
}

fn unreachable(dead: u64, live: u64) -> Option<Finding> {
    if !is_much(dead, live.saturating_add(dead)) {
        return None;
    }
    let text = format!(
        "{} of objects are unreachable but not collected yet. This is not a leak: a collection would free them.",
        round(dead)
    );
    let finding = Finding::new("unreachable", Severity::Info, text, "no root reaches them");
    Some(finding.about(dead).known(Confidence::Derived).more("retained").within("managed-heap"))
}

fn equal_strings(report: &HeapStatReport) -> Option<Finding> {
    let strings = report.strings.as_ref().filter(|s| is_much(s.wasted, report.total.size))?;
    let text = format!(
        "Equal strings: sharing equal texts among {} would save {} of {} ({} different texts).",
        counted(strings.total.objects, "string", "strings"),
        round(strings.wasted),
        round(strings.total.size),
        crate::units::exact(strings.distinct)
    );
    let finding = Finding::new("equal-strings", Severity::Warning, text, "comparison of all string contents");
    Some(finding.about(strings.wasted).known(Confidence::Exact).more("heapstat --strings").within("managed-heap"))
}

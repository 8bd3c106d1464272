//! Builds the findings of `triage`. First the totals by subject (`tally.rs`), then a sentence for each subject and its
//! notable details. Slow analyses run last, within the budget.

mod anonymous;
mod budget;
mod buffers;
mod c_objects;
mod heap;
mod lines;
mod native;
mod outside;
mod page_states;
mod running;
mod suggested;
mod suspects;
mod tally;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::analysis::no_runtime::{unread_heaps, unread_runtimes};
use crate::analysis::zero::ZeroMap;
use crate::causes::ranking::Family;
use crate::causes::verdict::verdict;
use crate::causes::{self, Scene, ranking};
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::tally::{Measure, Subject, Tally};
use crate::commands::triage::report::{MemoryRow, ShareRow, TriageReport, UnnamedRow};
use crate::memory::scan::ZeroStat;
use crate::native::malloc::UsageSplit;
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::session::Session;
use crate::shell::quoted;
use crate::units::{count, human};

/// Options of `triage`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TriageOptions {
    /// Time limit. Analyses that would exceed it are skipped and listed. `None` means no limit.
    pub budget: Option<Duration>,
    /// Includes the text of a C++ exception that was being handled at the end, which the process never printed, and
    /// more text of damaged malloc blocks.
    pub show_data: bool,
}

/// Minimum share of all bytes, and minimum bytes, for a subject to be the likely problem.
const MOST: f64 = 0.5;
const LARGE: u64 = 16 << 20;

/// Findings on which a user has little influence.
const MUST_BE: [&str; 4] = ["images", "file-pages", "system", "reserved"];

/// Findings on memory of which only the content is known.
const CONTENT_ONLY: [&str; 2] = ["anonymous", "anonymous-blocks"];

/// Findings about managed objects. These may be in a runtime's own memory or in malloc.
const OF_OBJECTS: [&str; 1] = ["containers"];

/// Maximum number of listed ranges without a known owner.
const UNNAMED: usize = 100;

/// Findings, and the memory that they leave without a known owner.
#[derive(Default)]
struct Found {
    findings: Vec<Finding>,
    unnamed: Vec<UnnamedRow>,
    /// Threads and their waits. `None` if the stacks were not read.
    scene: Option<Scene>,
    /// Roots and references of heaps that were not read.
    not_read: Vec<String>,
}

/// Returns what was not read and is necessary to call the process healthy.
fn missing(session: &Session<'_>, scene: Option<&Scene>, not_read: &[String], budget: &Budget) -> Vec<String> {
    let mut out = not_read.to_vec();
    match scene {
        None => out.push("stacks of threads".to_owned()),
        Some(scene) if scene.blind > 0 => out.push(format!("names of the frames of {}", count(scene.blind, "thread"))),
        Some(_) => {}
    }
    out.extend(budget.left_out.iter().cloned());
    let unread = unread_runtimes(session).into_iter().map(|unread| unread.name);
    out.extend(unread.map(|name| format!("the {name} runtime: its heap and its threads' waits")));
    out.extend(unread_heaps(session).into_iter().map(|name| format!("objects and waits of {name}")));
    if out.is_empty() && session.process.diag.is_partial() {
        out.push("what the warnings name".to_owned());
    }
    out
}

/// Explains where the memory went, most important cause first.
pub fn triage(session: &Session<'_>, options: &TriageOptions, progress: &Progress) -> TriageReport {
    session.process.target().expect_scan();
    let mut budget = Budget::new(options.budget);
    // Several findings need the graph of the heap.
    let _graphs = session.retain_graphs();
    let map = session.map();
    let zeros = ZeroMap::scan(session, None, progress);
    let by_region = zeros.by_region(map.regions.len());
    let tally = Tally::of(session, Some(&zeros), Some(&by_region));
    let mut found = Found::default();
    found.findings.extend(lines::state_of_core(session));
    found.findings.extend(lines::subjects(session, &tally, true));
    native::malloc(session, &tally, options.show_data, &mut budget, progress, &mut found);
    native::stacks(session, &tally, &zeros, &mut found);
    anonymous::anonymous(session, &tally, &mut budget, progress, &mut found);
    running::threads(session, &zeros, options.show_data, &mut budget, &mut found);
    heap::heap(session, &tally, &mut budget, progress, &mut found);
    let Found { mut findings, mut unnamed, scene, not_read } = found;
    findings.extend(scene.iter().flat_map(causes::waits));
    page_states::add(&tally, &mut findings);
    suggested::check(session, &mut findings, &mut budget, progress);
    let used = tally.total();
    causes::join(&mut findings);
    ranking::judge(&mut findings);
    findings.extend(verdict(&findings, &missing(session, scene.as_ref(), &not_read, &budget)));
    finish(session, &mut findings, Some(used), &tally);
    unnamed.sort_by_key(|row| (Reverse(row.bytes), row.start));
    let nameless: u64 = unnamed.iter().map(|row| row.bytes).fold(0, u64::saturating_add);
    let more_unnamed = unnamed.len().saturating_sub(UNNAMED) as u64;
    unnamed.truncate(UNNAMED);
    // Equal blocks are counted from samples, so the result may exceed the written bytes.
    let of_content = findings.iter().filter(|f| f.within.is_none() && CONTENT_ONLY.contains(&f.id));
    let described = of_content.filter_map(|f| f.bytes).fold(0, u64::saturating_add).min(used.saturating_sub(nameless));
    let part = |bytes: u64| ShareRow { bytes, share: share(bytes, used) };
    TriageReport {
        size: map.base.size(),
        in_core: session.process.space().dumped_total(),
        written: tally.written,
        resident: tally.measure.is_resident().then_some(used.saturating_sub(tally.swapped)),
        swapped: tally.measure.is_resident().then_some(tally.swapped),
        second_views: tally.second_views,
        memory: by_kind(&tally),
        named: part(used.saturating_sub(nameless).saturating_sub(described)),
        described: part(described),
        unknown: part(nameless.min(used)),
        unnamed,
        more_unnamed,
        findings,
        left_out: budget.left_out,
        conditions: Vec::new(),
        all: false,
    }
}

/// Returns all bytes by kind, most bytes first.
fn by_kind(tally: &Tally) -> Vec<MemoryRow> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let unlisted = tally.unlisted.iter().map(|(_, bytes)| (Subject::Anonymous.words(), *bytes));
    let listed = tally.shares.iter().map(|(subject, share)| (subject.words(), share.used));
    for (kind, bytes) in listed.chain(unlisted).filter(|(_, bytes)| *bytes > 0) {
        let sum = sums.entry(kind).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let total = tally.total();
    let row = |(kind, bytes)| MemoryRow { kind, bytes, share: share(bytes, total) };
    let mut rows: Vec<MemoryRow> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.bytes));
    rows
}

/// Returns the findings for `summary`, which need no further reading. They use results of the summary: the scan for
/// zero pages, the figures by region, and the division of malloc's memory.
pub(in crate::commands) fn quick(
    session: &Session<'_>,
    zeros: Option<&ZeroMap>,
    by_region: Option<&[ZeroStat]>,
    split: Option<&UsageSplit>,
) -> Vec<Finding> {
    let tally = Tally::of(session, zeros, by_region);
    let mut findings = lines::state_of_core(session);
    findings.extend(lines::subjects(session, &tally, false));
    findings.extend(native::quick(session, &tally, zeros, split));
    // This is the last step that reads: pages without a known owner, and pointers to them.
    session.process.target().release();
    findings.extend(anonymous::quick(session, &tally));
    page_states::add(&tally, &mut findings);
    finish(session, &mut findings, (tally.measure != Measure::InCore).then(|| tally.total()), &tally);
    findings
}

/// Sorts the findings by importance. Adds each one's share of the written or resident bytes, and the core's path after
/// its command.
fn finish(session: &Session<'_>, findings: &mut [Finding], used: Option<u64>, tally: &Tally) {
    let measure = tally.measure;
    let core = quoted(&session.process.facts().path);
    // A part has at most the share of its whole, because some allocated malloc memory may never have been written.
    let wholes: BTreeMap<&str, u64> = findings.iter().filter_map(|f| Some((f.id, f.bytes?))).collect();
    // Large objects of CPython are malloc blocks beside its heap.
    let beside =
        session.runtimes().iter().any(|runtime| runtime.small_blocks().is_some_and(|blocks| blocks.sums().is_some()));
    let beside = wholes.get("malloc").copied().filter(|_| beside).unwrap_or(0);
    let heap = wholes.get("managed-heap").copied().unwrap_or(0);
    // Memory that a runtime cleared was written, even if it is zero now.
    let cleared = !measure.is_resident() && session.runtimes().iter().any(|runtime| runtime.clears_objects());
    let whole = |f: &Finding| {
        let id = f.within?;
        let own = *wholes.get(id)?;
        Some(match id {
            "managed-heap" if cleared => u64::MAX,
            "managed-heap" => own.saturating_add(beside),
            "malloc" if OF_OBJECTS.contains(&f.id) => own.saturating_add(heap),
            _ => own,
        })
    };
    for finding in findings.iter_mut() {
        let most = whole(finding).unwrap_or(u64::MAX);
        // These bytes may be zeros that the runtime wrote, so all zeros of its heap count in the whole, too.
        let zeros = if cleared && finding.within == Some("managed-heap") { tally.zeros_of_heaps() } else { 0 };
        let all = used.map(|used| used.saturating_add(zeros));
        finding.share = finding.share.or_else(|| Some(share(finding.bytes?.min(most), all?)));
        // Objects that were never written take up no memory.
        if ranking::family(finding.id) == Family::Retained && most < ranking::HOLDER_BYTES {
            finding.severity = finding.severity.min(Severity::Info);
        }
        if let Some(command) = &mut finding.command {
            *command = format!("coremap {command} {core}");
        }
    }
    ranking::judge(findings);
    // Allocated memory that was never written is not the most important.
    let weight = |f: &Finding| f.bytes.unwrap_or(0).min(whole(f).unwrap_or(u64::MAX));
    // Files can fill the memory. Bytes in the core do not show that, but resident bytes do.
    let must_be = |f: &Finding| MUST_BE.contains(&f.id) && !(measure.is_resident() && is_most(f));
    ranking::sort(findings, weight, must_be);
}

/// Whether a finding accounts for most of all memory.
fn is_most(f: &Finding) -> bool {
    f.bytes.is_some_and(|b| b >= LARGE) && f.share.is_some_and(|share| share >= MOST)
}

/// Returns `part` / `whole`, from 0 to 1, rounded to four decimal places.
fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => (part as f64 / whole as f64).min(1.0).mul_add(1e4, 0.0).round() / 1e4,
    }
}

/// Creates a finding that only counts bytes and reports no problem.
fn plain(id: &'static str, text: String, evidence: &str, bytes: u64) -> Finding {
    Finding::new(id, Severity::Info, text, evidence).about(bytes)
}

/// Returns `1 mapping` or `12 mappings`.
fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", crate::units::exact(n), if n == 1 { one } else { many })
}

/// Lists names with sizes, largest first: `libc.so.6 2.1 MiB, app 1 MiB and 12 others`.
fn biggest(mut sizes: Vec<(String, u64)>, most: usize) -> String {
    sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let more = sizes.len().saturating_sub(most);
    let named: Vec<String> = sizes.iter().take(most).map(|(name, bytes)| format!("{name} {}", human(*bytes))).collect();
    match more {
        0 => named.join(", "),
        n => format!("{} and {}", named.join(", "), counted(n as u64, "other", "others")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_whole_and_never_more() {
        assert_eq!((share(1, 3), share(0, 0), share(5, 4)), (0.3333, 0.0, 1.0));
    }

    #[test]
    fn the_biggest_are_named_and_the_others_counted() {
        let sizes = vec![("a".to_owned(), 1024), ("b".to_owned(), 4096), ("c".to_owned(), 2048)];
        assert_eq!(biggest(sizes.clone(), 2), "b 4.00 KiB, c 2.00 KiB and 1 other");
        assert_eq!(biggest(sizes, 3), "b 4.00 KiB, c 2.00 KiB, a 1.00 KiB");
    }
}

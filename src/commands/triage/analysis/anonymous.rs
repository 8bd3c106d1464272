//! Memory that nobody claims: what fills it tells what it is, or at least that it is one thing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::commands::anon;
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::tally::{Subject, Tally};
use crate::commands::triage::analysis::{Found, counted};
use crate::commands::triage::report::UnnamedRow;
use crate::map::{Base, Confidence};
use crate::memory::content::{Content, Filled, filled};
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::session::Session;
use crate::units::round;

/// Bytes whose content is told in a second.
const TOLD: u64 = 800 << 20;

/// Percent of all written bytes, and bytes, from which on memory without an owner is a warning.
const MUCH: u64 = 20;
const LARGE: u64 = 16 << 20;

/// Contents that are told, and the least share of one, in percent.
const CONTENTS: usize = 3;
const SHARE: u64 = 2;

/// What anonymous memory holds.
pub(super) fn anonymous(
    session: &Session<'_>,
    tally: &Tally,
    budget: &mut Budget,
    progress: &Progress,
    found: &mut Found,
) {
    let Some(share) = tally.shares.get(&Subject::Anonymous).filter(|share| share.written > 0) else { return };
    let pattern = anon::finding(session);
    let regions = share.regions.iter().filter_map(|&i| session.map().regions.get(i));
    let ranges: Vec<AddrRange> = regions.map(|r| r.range).collect();
    if !budget.allows("what fills anonymous memory", share.in_core, TOLD) {
        found.findings.extend(pattern);
        found.unnamed.extend(ranges.iter().zip(&share.regions).map(|(range, i)| UnnamedRow {
            start: range.start,
            end: range.end,
            bytes: tally.written.get(*i).copied().unwrap_or(0),
            content: "not looked at".into(),
        }));
        return;
    }
    let base = session.process.base();
    let runs = filled(session.process.target(), &ranges, &|word| is_address(base, word), progress);
    let written = runs.iter().filter(|run| run.content != Content::Zero);
    let blocks = pattern.as_ref().and_then(|p| p.bytes).unwrap_or(0).min(share.written);
    let nameless: Vec<&Filled> = written.clone().filter(|run| run.content == Content::Mixed).collect();
    let without: u64 =
        nameless.iter().map(|run| run.range.len()).sum::<u64>().min(share.written.saturating_sub(blocks));
    let rest = share.written.saturating_sub(blocks).saturating_sub(without);
    found.findings.extend(pattern);
    if rest > 0 {
        let severity = severity(rest, tally.total());
        let text = format!(
            "{} of anonymous memory in {} that no allocator, runtime or file claims: mapped by the program itself or a library. {}. \
             `coremap anon` tells the blocks it is made of and who points at them.",
            round(rest),
            counted(share.regions.len() as u64, "mapping", "mappings"),
            told(written.filter(|run| run.content != Content::Mixed))
        );
        let evidence = "what fills its pages, each looked at";
        found.findings.push(
            Finding::new("anonymous", severity, text, evidence).about(rest).known(Confidence::Heuristic).more("anon"),
        );
    }
    if without > 0 {
        let example = nameless.iter().max_by_key(|run| (run.range.len(), Reverse(run.range.start)));
        let text = format!(
            "{} that nobody can name: anonymous memory in {}, of mixed content.{}",
            round(without),
            counted(mappings(&ranges, &nameless), "mapping", "mappings"),
            example.map_or_else(String::new, |run| format!(
                " The longest stretch, {}, is at {}.",
                round(run.range.len()),
                run.range.start
            ))
        );
        let severity = severity(without, tally.total());
        let finding = Finding::new("unnamed", severity, text, "no claim of anybody, and no content that tells");
        let more = example.map_or_else(|| "anon".to_owned(), |run| format!("refs {}", run.range.start));
        found.findings.push(finding.about(without).more(more));
        found.unnamed.extend(stretches(&ranges, &nameless));
    }
}

/// How much so many bytes without an owner matter among all that was written.
fn severity(bytes: u64, written: u64) -> Severity {
    let much = bytes >= LARGE && bytes.saturating_mul(100) >= written.saturating_mul(MUCH);
    if much { Severity::Warning } else { Severity::Info }
}

/// What a summary tells of it.
pub(super) fn quick(session: &Session<'_>, tally: &Tally) -> Vec<Finding> {
    let Some(share) = tally.shares.get(&Subject::Anonymous).filter(|share| share.written > 0) else {
        return Vec::new();
    };
    let pattern = anon::finding(session);
    let rest = share.written.saturating_sub(pattern.as_ref().and_then(|p| p.bytes).unwrap_or(0));
    let mut out: Vec<Finding> = pattern.into_iter().collect();
    if rest > 0 {
        let text = format!(
            "{} of anonymous memory in {} that no allocator, runtime or file claims.",
            round(rest),
            counted(share.regions.len() as u64, "mapping", "mappings")
        );
        // How much of it was written is not known here.
        out.push(
            Finding::new("anonymous", Severity::Info, text, "no claim of anybody")
                .about(rest)
                .known(Confidence::Heuristic)
                .more("anon"),
        );
    }
    out
}

fn is_address(base: &Base, word: u64) -> bool {
    let hull = base.entries.first().zip(base.entries.last());
    let within = hull.is_some_and(|(first, last)| (first.range.start.get()..last.range.end.get()).contains(&word));
    within && base.at(Addr::new(word)).is_some()
}

/// Contents by their shares: `96 % one byte value, 0x16; 2 % pointers`.
fn told<'r>(runs: impl Iterator<Item = &'r Filled>) -> String {
    let mut sums: BTreeMap<Content, u64> = BTreeMap::new();
    for run in runs {
        *sums.entry(run.content).or_default() += run.range.len();
    }
    let all: u64 = sums.values().sum();
    let mut by_size: Vec<(Content, u64)> = sums.into_iter().collect();
    by_size.sort_by_key(|(content, bytes)| (Reverse(*bytes), *content));
    let percent = |bytes: u64| bytes.saturating_mul(100).checked_div(all).unwrap_or(0);
    let parts: Vec<String> = by_size
        .iter()
        .take(CONTENTS)
        .filter(|(_, bytes)| percent(*bytes) >= SHARE)
        .map(|(content, bytes)| format!("{} % of it is {content}", percent(*bytes)))
        .collect();
    parts.join(", ")
}

/// In how many of `ranges` any of the runs lies.
fn mappings(ranges: &[AddrRange], runs: &[&Filled]) -> u64 {
    let of = |run: &&Filled| ranges.partition_point(|r| r.end <= run.range.start);
    let mut all: Vec<usize> = runs.iter().map(of).collect();
    all.dedup();
    all.len() as u64
}

/// The runs of each mapping as one stretch, from the first to the last of them.
fn stretches(ranges: &[AddrRange], runs: &[&Filled]) -> Vec<UnnamedRow> {
    let mut out: Vec<(usize, UnnamedRow)> = Vec::new();
    for run in runs {
        let of = ranges.partition_point(|r| r.end <= run.range.start);
        match out.last_mut() {
            Some((last, row)) if *last == of => {
                row.end = run.range.end;
                row.bytes = row.bytes.saturating_add(run.range.len());
            }
            _ => out.push((
                of,
                UnnamedRow {
                    start: run.range.start,
                    end: run.range.end,
                    bytes: run.range.len(),
                    content: run.content.to_string(),
                },
            )),
        }
    }
    out.into_iter().map(|(_, row)| row).collect()
}

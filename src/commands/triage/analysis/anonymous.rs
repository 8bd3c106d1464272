//! Anonymous memory with no known owner, described by its contents.

use std::cmp::Reverse;

use crate::addr::{AddrRange, union};
use crate::analysis::contents::Destinations;
use crate::commands::anon;
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::tally::{Measure, Share, Subject, Tally};
use crate::commands::triage::analysis::{Found, counted};
use crate::commands::triage::report::UnnamedRow;
use crate::map::{Confidence, Region};
use crate::memory::content::{Content, Filled, Makeup, filled, within};
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::runtimes::mapped_libraries;
use crate::session::Session;
use crate::units::round;

/// Number of bytes whose content is classified per second.
const CLASSIFIED: u64 = 800 << 20;

/// Minimum share of all bytes in percent, and minimum bytes, of memory without an owner for a warning.
const MUCH: u64 = 20;
const LARGE: u64 = 16 << 20;

/// Maximum number of contents named, and minimum share of a named content in percent.
const CONTENTS: usize = 3;
const SHARE: u64 = 2;

/// Names possible owners of memory without a known owner. The heap of a runtime that cannot be read is part of it.
fn possible_owners(session: &Session<'_>) -> String {
    match mapped_libraries(session.process).first() {
        Some((file, name)) if session.runtimes().is_empty() => {
            format!("the {name} runtime, which could not be read ({file}), the program or a library")
        }
        // A runtime has structures of its own that no reader knows, and a small dump lacks most of the known ones.
        _ if !session.runtimes().is_empty() => "the program, a library or the runtime itself".to_owned(),
        _ => "the program or a library".to_owned(),
    }
}

/// Returns the evidence that memory has no known owner.
fn without_owner(session: &Session<'_>) -> String {
    let owners =
        if session.process.facts().lists_files() { "allocator, runtime or file" } else { "allocator or runtime" };
    format!("no {owners} that was read owns it{}", no_file_list(session))
}

/// Returns a note if the core lists no files: memory without an owner may then belong to a file.
fn no_file_list(session: &Session<'_>) -> &'static str {
    match session.process.facts().lists_files() {
        true => "",
        false => "; the core has no list of mapped files (NT_FILE), so whether a file is behind it is unknown",
    }
}

/// Adds findings on the contents of anonymous memory.
pub(super) fn anonymous(
    session: &Session<'_>,
    tally: &Tally,
    budget: &mut Budget,
    progress: &Progress,
    found: &mut Found,
) {
    let nothing = Share::default();
    let share = tally.shares.get(&Subject::Anonymous).unwrap_or(&nothing);
    let absent = not_in_core(session, tally, share, found);
    if share.used <= absent {
        return;
    }
    let equal = anon::finding(session);
    let blocks = equal.as_ref().map(|equal| union(equal.blocks.clone())).unwrap_or_default();
    let regions = share.regions.iter().filter_map(|&i| session.map().regions.get(i));
    let ranges: Vec<AddrRange> = regions.map(|r| r.range).collect();
    let destinations = Destinations::of(session.map());
    let read = |_: &mut Budget| filled(session.process.target(), &ranges, &destinations, progress);
    let Some(runs) = budget.run(session, "contents of anonymous memory", (share.in_core, CLASSIFIED), read) else {
        not_looked_at(session, tally, share, (equal.map(|equal| equal.finding), &blocks), found);
        return;
    };
    // Each page counts once: as part of the equal blocks, or by its content.
    let makeup = Makeup::of(blocks.iter().flat_map(|block| within(&runs, *block)));
    let of_blocks = makeup.written().min(share.used.saturating_sub(absent));
    let others: Vec<Filled> = outside(&ranges, &blocks).iter().flat_map(|range| within(&runs, *range)).collect();
    // In a scrubbed core, overwritten memory may have had any content.
    let is_nameless = |run: &&Filled| matches!(run.content, Content::Mixed | Content::Overwritten);
    let nameless: Vec<&Filled> = others.iter().filter(is_nameless).collect();
    let without = nameless.iter().map(|run| run.range.len()).fold(0, u64::saturating_add);
    let without = without.min(share.used.saturating_sub(absent).saturating_sub(of_blocks));
    let rest = share.used.saturating_sub(absent).saturating_sub(of_blocks).saturating_sub(without);
    found.findings.extend(equal.map(|equal| equal.with_all_pages(makeup, of_blocks, &destinations)));
    if rest > 0 {
        let severity = severity(rest, tally.total());
        let named = Makeup::of(others.iter().filter(|run| !is_nameless(run)).copied());
        // If the core lacks a part of a mapping, that part may have any content.
        let partial = share.regions.iter().filter_map(|&i| session.map().regions.get(i)).any(is_partial);
        let text = format!(
            "{} of {}{} with no known owner ({}); {} mapped it. {} `coremap anon` lists its blocks and the pointers to \
             them.",
            round(rest),
            adjective(tally.measure),
            anon::noun(session),
            counted(share.regions.len() as u64, "mapping", "mappings"),
            possible_owners(session),
            content(&destinations, &named, rest, partial)
        );
        let evidence = format!("contents of every page{}", no_file_list(session));
        found.findings.push(
            Finding::new("anonymous", severity, text, evidence).about(rest).known(Confidence::Heuristic).more("anon"),
        );
    }
    if without > 0 {
        let example = nameless.iter().max_by_key(|run| (run.range.len(), Reverse(run.range.start)));
        let text = format!(
            "{} of {} with no known owner and mixed content ({}).{}",
            round(without),
            anon::noun(session),
            counted(mappings(&ranges, &nameless), "mapping", "mappings"),
            example.map_or_else(String::new, |run| format!(
                " The longest range, {}, is at {}.",
                round(run.range.len()),
                run.range.start
            ))
        );
        let severity = severity(without, tally.total());
        let finding = Finding::new(
            "unnamed",
            severity,
            text,
            format!("no owner found; contents are mixed{}", no_file_list(session)),
        );
        let more = example.map_or_else(|| "anon".to_owned(), |run| format!("refs {}", run.range.start));
        found.findings.push(finding.about(without).more(more));
        found.unnamed.extend(stretches(&ranges, &nameless));
    }
}

/// Describes anonymous memory without reading its pages. The finding on equal blocks explains as much of it as may have
/// been written. The rest stays unexplained.
fn not_looked_at(
    session: &Session<'_>,
    tally: &Tally,
    share: &Share,
    (equal, blocks): (Option<Finding>, &[AddrRange]),
    found: &mut Found,
) {
    let (mut of_blocks, mut rest, mut mappings) = (0u64, 0u64, 0);
    for &i in &share.regions {
        let Some(region) = session.map().regions.get(i) else { continue };
        let used = tally.used.get(i).copied().unwrap_or(0);
        let written = used.saturating_sub(absent(region, used, tally.measure));
        let in_blocks =
            touched(blocks, region.range).iter().map(AddrRange::len).fold(0, u64::saturating_add).min(written);
        of_blocks = of_blocks.saturating_add(in_blocks);
        if written > in_blocks {
            rest = rest.saturating_add(written - in_blocks);
            mappings += 1;
            found.unnamed.push(UnnamedRow {
                start: region.range.start,
                end: region.range.end,
                bytes: written - in_blocks,
                content: "not read".into(),
            });
        }
    }
    found.findings.extend(equal.map(|finding| written_of(finding, of_blocks)));
    if rest > 0 {
        let text = format!(
            "{} of {} with no known owner ({}). Its contents were not read.",
            round(rest),
            anon::noun(session),
            counted(mappings, "mapping", "mappings")
        );
        let finding = Finding::new("unnamed", severity(rest, tally.total()), text, without_owner(session));
        found.findings.push(finding.about(rest).more("anon"));
    }
}

/// Adds to the finding on equal blocks how many of their bytes were written.
fn written_of(finding: Finding, bytes: u64) -> Finding {
    let severity = if bytes == 0 { Severity::Info } else { finding.severity };
    Finding { severity, bytes: Some(bytes), ..finding }
}

/// Returns the parts of `blocks` (sorted, disjoint) within `range`.
fn touched(blocks: &[AddrRange], range: AddrRange) -> Vec<AddrRange> {
    let from = blocks.partition_point(|block| block.end <= range.start);
    blocks.get(from..).unwrap_or_default().iter().map_while(|block| block.intersect(&range)).collect()
}

/// Returns `ranges` without `blocks`. Both are sorted and disjoint.
fn outside(ranges: &[AddrRange], blocks: &[AddrRange]) -> Vec<AddrRange> {
    let mut out = Vec::new();
    for range in ranges {
        let mut at = range.start;
        for block in touched(blocks, *range) {
            out.push(AddrRange::new(at, block.start));
            at = block.end;
        }
        out.push(AddrRange::new(at, range.end));
    }
    out.retain(|part| !part.is_empty());
    out
}

/// Returns the severity of `bytes` without an owner, by their share of all `used` bytes.
fn severity(bytes: u64, used: u64) -> Severity {
    let much = bytes >= LARGE && bytes.saturating_mul(100) >= used.saturating_mul(MUCH);
    if much { Severity::Warning } else { Severity::Info }
}

/// Returns findings for `summary`.
pub(super) fn quick(session: &Session<'_>, tally: &Tally) -> Vec<Finding> {
    let nothing = Share::default();
    let share = tally.shares.get(&Subject::Anonymous).unwrap_or(&nothing);
    let mut found = Found::default();
    let used = share.used.saturating_sub(not_in_core(session, tally, share, &mut found));
    let mut out = found.findings;
    if used == 0 {
        return out;
    }
    let pattern = anon::finding(session);
    // Bytes in the core include zero pages, so the blocks' bytes include them too.
    let in_core = tally.measure == Measure::InCore;
    let of_blocks = pattern.as_ref().map_or(0, |p| if in_core { p.size } else { p.finding.bytes.unwrap_or(0) });
    let rest = used.saturating_sub(of_blocks);
    out.extend(pattern.map(|p| p.finding));
    if rest > 0 {
        let text = format!(
            "{} of {}{} with no known owner ({}).",
            round(rest),
            adjective(tally.measure),
            anon::noun(session),
            counted(share.regions.len() as u64, "mapping", "mappings")
        );
        // It is unknown here how much of the blocks was written.
        out.push(
            Finding::new("anonymous", Severity::Info, text, without_owner(session))
                .about(rest)
                .known(Confidence::Heuristic)
                .more("anon"),
        );
    }
    out
}

/// Returns the measure as a word in front of `anonymous memory`. Empty for the core's own measure.
fn adjective(measure: Measure) -> String {
    if measure.is_resident() { format!("{} ", measure.word()) } else { String::new() }
}

/// Whether the core has only a part of a region.
fn is_partial(region: &Region) -> bool {
    (1..region.range.len()).contains(&region.in_core)
}

/// Returns how many of a region's `used` bytes cannot be in the core.
fn absent(region: &Region, used: u64, measure: Measure) -> u64 {
    if measure.is_resident() { used.saturating_sub(region.in_core) } else { 0 }
}

/// Adds memory that is resident or swapped but not in the core. It may be excluded from dumps (MADV_DONTDUMP). Returns
/// how much of it is anonymous memory of `share`.
fn not_in_core(session: &Session<'_>, tally: &Tally, share: &Share, found: &mut Found) -> u64 {
    let listed = share.regions.iter().filter_map(|&i| {
        let region = session.map().regions.get(i)?;
        Some((region.range, absent(region, tally.used.get(i).copied().unwrap_or(0), tally.measure)))
    });
    let listed: Vec<(AddrRange, u64)> = listed.filter(|(_, bytes)| *bytes > 0).collect();
    let sum = |rows: &[(AddrRange, u64)]| rows.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    let (anonymous, unlisted) = (sum(&listed), sum(&tally.unlisted));
    let bytes = anonymous.saturating_add(unlisted);
    if bytes == 0 {
        return 0;
    }
    let rows = || listed.iter().chain(&tally.unlisted);
    let excluded = session.process.residence().map_or(0, |residence| {
        let is_excluded = |at| residence.mapping_at(at).is_some_and(|mapping| mapping.flags.dont_dump);
        rows().filter(|(range, _)| is_excluded(range.start)).map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    });
    let text = format!(
        "At least {} of {}memory is not in the core ({}), so what it contains is unknown.{}{}",
        round(bytes),
        adjective(tally.measure),
        counted(rows().count() as u64, "mapping", "mappings"),
        match excluded {
            0 => String::new(),
            excluded if excluded == bytes => " The program excluded it from dumps (MADV_DONTDUMP).".to_owned(),
            excluded => format!(" The program excluded {} of it from dumps (MADV_DONTDUMP).", round(excluded)),
        },
        match unlisted {
            0 => String::new(),
            unlisted if unlisted == bytes => " The core does not list its mappings.".to_owned(),
            unlisted => format!(" The core does not list the mappings of {} of it.", round(unlisted)),
        }
    );
    let evidence = "smaps, and the core's list of what it contains";
    let finding = Finding::new("not-in-core", severity(bytes, tally.total()), text, evidence);
    // Some pages in the core may not be resident. So even more resident pages may be missing.
    let finding = finding.about(bytes).known(Confidence::Derived);
    found.findings.push(if listed.is_empty() { finding } else { finding.more("regions") });
    found.unnamed.extend(rows().map(|(range, bytes)| UnnamedRow {
        start: range.start,
        end: range.end,
        bytes: *bytes,
        content: "not in the core".into(),
    }));
    anonymous
}

/// Describes `bytes` of memory with these contents. Bytes outside of written pages are in zero pages, unless the memory
/// is only `partial` in the core.
fn content(destinations: &Destinations, makeup: &Makeup, bytes: u64, partial: bool) -> String {
    let zero = bytes.saturating_sub(makeup.written());
    let parts = by_share(destinations, makeup);
    let zeros = if partial { "zeros or not in the core" } else { "zeros" };
    let is_much = |part: u64| part.saturating_mul(100) >= bytes.saturating_mul(SHARE);
    match (is_much(makeup.written()), is_much(zero)) {
        _ if parts.is_empty() => format!("Content: only {zeros}."),
        (_, false) => format!("Content: {parts}."),
        (true, true) => format!("Content: {} are {zeros}; of the rest, {parts}.", round(zero)),
        (false, true) => format!("Content: {zeros}, except for {}.", round(makeup.written())),
    }
}

/// Lists contents by share: `96 % one byte value, 0x16; 2 % pointers (into malloc)`.
fn by_share(destinations: &Destinations, makeup: &Makeup) -> String {
    let parts: Vec<String> = makeup
        .by_size()
        .into_iter()
        .take(CONTENTS)
        .map(|(content, bytes)| (content, bytes.saturating_mul(100).checked_div(makeup.written()).unwrap_or(0)))
        .enumerate()
        .filter(|(i, (_, percent))| *i == 0 || *percent >= SHARE)
        .map(|(_, (content, percent))| format!("{percent} % {}", destinations.describe(content)))
        .collect();
    parts.join("; ")
}

/// Returns the number of `ranges` that contain any of the runs.
fn mappings(ranges: &[AddrRange], runs: &[&Filled]) -> u64 {
    let of = |run: &&Filled| ranges.partition_point(|r| r.end <= run.range.start);
    let mut all: Vec<usize> = runs.iter().map(of).collect();
    all.dedup();
    all.len() as u64
}

/// Merges the runs of each mapping into one range, from the first run to the last.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(Addr::new(start), Addr::new(end))
    }

    #[test]
    fn what_blocks_have_is_left_out_once() {
        let ranges = [range(0x1000, 0x9000), range(0xa000, 0xb000)];
        let blocks = [range(0x1000, 0x2000), range(0x4000, 0x5000), range(0x8000, 0xa800)];
        assert_eq!(outside(&ranges, &blocks), [range(0x2000, 0x4000), range(0x5000, 0x8000), range(0xa800, 0xb000)]);
        assert_eq!(touched(&blocks, range(0x4800, 0x9000)), [range(0x4800, 0x5000), range(0x8000, 0x9000)]);
        assert_eq!(outside(&ranges, &[]), ranges);
        assert_eq!(outside(&ranges, &[range(0, 0x10000)]), []);
    }
}

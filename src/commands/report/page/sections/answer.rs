//! The first screen: where the memory went, most important cause first, and bars of the written bytes.

use std::cmp::Reverse;

use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{changes, command, prose, whole_command};
use crate::commands::report::page::svg;
use crate::commands::report::page::table::{Cell, Table, percent, signed};
use crate::commands::report::page::{Pair, View};
use crate::commands::report::pictures::{Family, Look};
use crate::commands::summary::KindRow;
use crate::report::{Finding, Severity};
use crate::sums::SaturatingSum;
use crate::targets::Producer;
use crate::units::{human, noun};

/// Number of findings shown without a click.
const MAX_SHOWN: usize = 5;

/// Minimum number of findings shown that account for memory, even if fewer problems were found.
const MIN_ACCOUNTING: usize = 3;

/// Minimum share of the written bytes for such a finding.
const MIN_SHARE: f64 = 0.05;

pub(super) fn answer(out: &mut Html, view: &View<'_>) {
    let triage = &view.answers.triage;
    out.open("div", &[("class", &"two")]).open("div", &[]);
    let (changed, counted): (Vec<&Finding>, Vec<&Finding>) =
        triage.findings.iter().partition(|f| f.severity > Severity::Info || (f.bytes.is_none() && f.within.is_none()));
    let (news, notes): (Vec<&Finding>, Vec<&Finding>) = changed.into_iter().partition(|f| f.severity > Severity::Info);
    if news.is_empty() {
        out.leaf("p", &[("class", &"calm")], "No problem was found. The largest uses of memory:");
    }
    // If nothing is wrong, the question is still where the memory went.
    let mut biggest: Vec<&Finding> =
        counted.iter().copied().filter(|f| f.within.is_none() && f.share >= Some(MIN_SHARE)).collect();
    biggest.sort_by_key(|f| Reverse(f.share.map_or(0, |share| (share * 1e6) as u64)));
    biggest.truncate(MIN_ACCOUNTING.saturating_sub(news.len()));
    let mut sorted = news;
    sorted.extend(biggest);
    sorted.extend(notes);
    let more = sorted.split_off(MAX_SHOWN.min(sorted.len()));
    if let Some(pair) = view.pair {
        since(out, view, pair);
    }
    findings(out, view, &sorted);
    let within: Vec<&Finding> = counted.iter().copied().filter(|f| f.within.is_some()).collect();
    let more: Vec<&Finding> = more.into_iter().chain(within).collect();
    if !more.is_empty() {
        out.open("details", &[]).leaf(
            "summary",
            &[],
            format!("{} more {}", more.len(), noun(more.len() as u64, "finding")),
        );
        findings(out, view, &more);
        out.close("details");
    }
    out.close("div").open("div", &[]);
    bars(out, view);
    out.close("div").close("div");
    subjects(out, view);
    command(out, view, "triage");
}

/// Summarises the changes since the older core in a sentence.
fn since(out: &mut Html, view: &View<'_>, pair: &Pair) {
    let changed = changes::summarize(view, pair);
    out.open("ul", &[("class", &"findings")]).open("li", &[("class", &"finding s-info"), ("data-id", &"since")]);
    out.open("p", &[("class", &"figures")]);
    out.leaf("span", &[("class", &"severity")], "since the older core");
    out.leaf("b", &[("data-v", &changed.by)], signed(changed.by, human)).close("p");
    prose(out, &changed.text);
    out.open("p", &[("class", &"proof")]).leaf("a", &[("href", &"#changes")], "Show details").close("p");
    out.close("li").close("ul");
}

fn findings(out: &mut Html, view: &View<'_>, findings: &[&Finding]) {
    out.open("ul", &[("class", &"findings")]);
    for finding in findings {
        out.open("li", &[("class", &format!("finding s-{}", finding.severity)), ("data-id", &finding.id)]);
        out.open("p", &[("class", &"figures")]);
        out.leaf("span", &[("class", &"severity")], finding.severity);
        if let Some(bytes) = finding.bytes {
            out.leaf("b", &[("data-v", &bytes)], human(bytes));
        }
        if let Some(share) = finding.share {
            let measure = view.answers.triage.measure();
            let reserved = if is_reserve(finding, view) { format!("reserved; {measure}: ") } else { String::new() };
            out.leaf("span", &[], format!("{reserved}{} of all {measure} bytes", percent(share)));
        }
        if let Some(confidence) = finding.confidence {
            out.leaf("span", &[("class", &format!("sure-{confidence}"))], confidence);
        }
        out.close("p");
        prose(out, &finding.text);
        out.open("p", &[("class", &"proof")]).text(format!("Evidence: {}. ", finding.evidence));
        out.leaf("a", &[("href", &format!("#{}", proof(finding, view)))], "Show details").close("p");
        if let Some(command) = &finding.command {
            whole_command(out, view, command);
        }
        out.close("li");
    }
    out.close("ul");
}

/// Whether a finding's bytes are reserved address space, while its share counts written or resident bytes. Stacks may
/// be such a finding.
fn is_reserve(finding: &Finding, view: &View<'_>) -> bool {
    let all = view.answers.triage.counted() as f64;
    let changed = finding.bytes.zip(finding.share);
    finding.within.is_none()
        && changed.is_some_and(|(bytes, share)| bytes as f64 > share.mul_add(all, 0.001 * all) + 4096.0)
}

/// Id of the section with the evidence for a finding.
fn proof(finding: &Finding, view: &View<'_>) -> &'static str {
    match section(finding) {
        "heap" if view.answers.heapstat.is_none() => "memory",
        "runtime" if view.answers.heap.is_none() => "memory",
        section => section,
    }
}

fn section(finding: &Finding) -> &'static str {
    let command = finding.command.as_deref().and_then(|c| c.split(' ').nth(1)).unwrap_or_default();
    match (finding.id, command) {
        ("images" | "file-pages" | "system", _) => "files",
        ("anonymous" | "anonymous-blocks" | "native-buffers" | "small-blocks" | "malloc", _) => "native",
        (_, "threads" | "stacks" | "async" | "exceptions" | "syncblocks") => "threads",
        (_, "heapstat" | "objects" | "object" | "gcroot" | "retained" | "finalizers" | "handles") => "heap",
        (_, "malloc" | "leaks" | "holders" | "anon" | "refs") => "native",
        (_, "heap") => "runtime",
        (_, "info" | "check") => "lacks",
        (_, "whatis") => "map",
        _ => "memory",
    }
}

fn bars(out: &mut Html, view: &View<'_>) {
    let summary = &view.answers.summary;
    let written = summary.total.written.unwrap_or(0);
    if let Some(pair) = view.pair {
        out.leaf("h3", &[], format!("Written before: {}", human(pair.summary.total.written.unwrap_or(0))));
        svg::kind_bar(out, "Written before, by kind", &pair.summary.kinds, written, |k| (k.written.unwrap_or(0), 0));
    }
    out.leaf("h3", &[], format!("Written: {}", human(written)));
    let before = view.pair.and_then(|pair| pair.summary.total.written).unwrap_or(0);
    svg::kind_bar(out, "Written, by kind", &summary.kinds, before, |k| (k.written.unwrap_or(0), 0));
    // Reserved ranges would hide the rest, because gdb writes them as zeros.
    let apart: Vec<KindRow> =
        summary.kinds.iter().filter(|k| Family::of(k.kind) != Family::Reserved).cloned().collect();
    let held: u64 = apart.iter().map(|k| k.in_core).saturating_sum();
    let beside = summary.total.in_core.saturating_sub(held);
    let beside = if beside > 0 { format!(", plus {} of reserved ranges", human(beside)) } else { String::new() };
    let live = view.core.producer == Producer::Live;
    let holds = if live { "A core would contain" } else { "In the core" };
    out.leaf("h3", &[], format!("{holds}: {}{beside}", human(held)));
    svg::kind_bar(out, "In the core, by kind", &apart, 0, |k| (k.in_core, k.zero.unwrap_or(0)));
    let resident = summary.rss.is_some();
    if let Some(rss) = &summary.rss {
        out.leaf("h3", &[], format!("Resident (RSS): {}", human(rss.kinds)));
        svg::kind_bar(out, "Resident, by kind", &summary.kinds, 0, |k| (k.resident.rss.unwrap_or(0), 0));
    }
    svg::legend(out, &summary.kinds, true);
    let mut columns = vec![("Memory", false), ("Written", true), ("Share", true), ("In the core", true)];
    if resident {
        columns.push(("Resident", true));
    }
    let mut table = Table::new("families", "Written bytes by family of kinds", &columns);
    let mut reserved = 0;
    for family in Family::ALL {
        let kinds = summary.kinds.iter().filter(|k| Family::of(k.kind) == family);
        let (mut wrote, mut core, mut size, mut rss) = (0_u64, 0_u64, 0_u64, 0_u64);
        for kind in kinds {
            wrote = wrote.saturating_add(kind.written.unwrap_or(0));
            core = core.saturating_add(kind.in_core);
            size = size.saturating_add(kind.size);
            rss = rss.saturating_add(kind.resident.rss.unwrap_or(0));
        }
        if family == Family::Reserved {
            reserved = size.saturating_sub(wrote);
        }
        if core == 0 && wrote == 0 && rss == 0 {
            continue;
        }
        let mut cells = vec![
            Cell::Coloured(family.class(), family.title().to_owned()),
            Cell::Size(Some(wrote)),
            Cell::Share((written > 0).then(|| wrote as f64 / written as f64)),
            Cell::Size(Some(core)),
        ];
        if resident {
            cells.push(Cell::Size(Some(rss)));
        }
        table.rows.push(cells);
    }
    let mut sums = vec![
        Cell::Text("all".to_owned()),
        Cell::Size(summary.total.written),
        Cell::Text(String::new()),
        Cell::Size(Some(summary.total.in_core)),
    ];
    if let Some(rss) = &summary.rss {
        sums.push(Cell::Size(Some(rss.kinds)));
    }
    table.foot.push(sums);
    table.write(out);
    let mut space = "Written: bytes in pages that are not all zero.".to_owned();
    if reserved > 0 {
        space.push_str(&format!(
            " In addition, {} of address space is reserved and was never written.",
            human(reserved)
        ));
    }
    space.push_str(&format!(" Total mapped: {}.", human(summary.total.size)));
    out.leaf("p", &[("class", &"note")], space);
}

/// Writes the table of subjects. Each written byte is in one row.
fn subjects(out: &mut Html, view: &View<'_>) {
    let triage = &view.answers.triage;
    let mut table = Table::new(
        "subjects",
        "All written bytes by subject",
        &[
            ("Subject", false),
            ("Bytes", true),
            ("Share of written bytes", true),
            ("Description", false),
            ("Confidence", false),
        ],
    );
    for finding in triage.findings.iter().filter(|f| f.within.is_none() && f.bytes.is_some()) {
        table.rows.push(vec![
            Cell::Text(finding.id.replace('-', " ") + if is_reserve(finding, view) { " (reserved)" } else { "" }),
            Cell::Size(finding.bytes),
            Cell::Share(finding.share),
            Cell::Text(finding.text.replace('`', "")),
            finding.confidence.map_or(Cell::Text(String::new()), |c| Cell::Sure(c.name())),
        ]);
    }
    out.leaf("h3", &[], format!("All {} bytes by subject", triage.measure()));
    table.write(out);
    out.leaf("p", &[("class", &"note")], format!("{}.", triage.explained()));
    for sentence in &triage.left_out {
        out.leaf("p", &[("class", &"note")], format!("Skipped to stay within --budget: {sentence}"));
    }
}

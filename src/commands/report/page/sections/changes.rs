//! The section on the differences between two cores, largest growth first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{rest_row, whole_command};
use crate::commands::report::page::table::{Cell, Table, signed};
use crate::commands::report::page::{Pair, View};
use crate::commands::report::pictures::{Family, Look};
use crate::commands::summary::{KindRow, SummaryReport};
use crate::map::Kind;
use crate::shell;
use crate::sums::SaturatingSum;
use crate::units::{exact, human};

/// Maximum number of rows of each table.
const MAX_ROWS: usize = 200;

pub(super) fn changes(out: &mut Html, view: &View<'_>) {
    let Some(pair) = view.pair else { return };
    lead(out, view, pair);
    kinds(out, view, pair);
    findings(out, view, pair);
    types(out, pair);
    blocks(out, pair);
    whole_command(out, view, &format!("coremap diff {} {}", shell::quoted(&pair.core.path), view.path));
}

/// Returns `new` − `old`, saturating.
fn change(old: u64, new: u64) -> i64 {
    let size = i64::try_from(new.abs_diff(old)).unwrap_or(i64::MAX);
    if new >= old { size } else { -size }
}

fn lead(out: &mut Html, view: &View<'_>, pair: &Pair) {
    let written = |summary: &SummaryReport| summary.total.written.unwrap_or(0);
    let (old, new) = (written(&pair.summary), written(&view.answers.summary));
    let text = format!(
        "Written: {} before, {} now ({}). Threads: {} before, {} now ({}).",
        human(old),
        human(new),
        signed(change(old, new), human),
        exact(pair.diff.threads.old),
        exact(pair.diff.threads.new),
        signed(pair.diff.threads.delta, exact)
    );
    out.leaf("p", &[("class", &"lead")], text);
}

/// The changes in a sentence.
pub(super) struct ChangeSummary {
    /// Change in written bytes.
    pub(super) by: i64,
    /// The kinds that changed most, in words.
    pub(super) text: String,
}

/// Maximum number of kinds named in each direction.
const MAX_NAMED: usize = 3;

pub(super) fn summarize(view: &View<'_>, pair: &Pair) -> ChangeSummary {
    let total = |summary: &SummaryReport| summary.total.written.unwrap_or(0);
    let by = change(total(&pair.summary), total(&view.answers.summary));
    let mut kinds: Vec<(&str, i64)> = by_kind(view, pair)
        .iter()
        .map(|(kind, (old, new))| (kind.name(), change(old.written.unwrap_or(0), new.written.unwrap_or(0))))
        .collect();
    kinds.sort_by_key(|(name, by)| (Reverse(*by), *name));
    let list = |some: &mut dyn Iterator<Item = &(&str, i64)>| {
        let texts: Vec<String> =
            some.take(MAX_NAMED).map(|(name, by)| format!("{name} {}", signed(*by, human))).collect();
        texts.join(", ")
    };
    let more = list(&mut kinds.iter().filter(|(_, by)| *by > 0));
    let less = list(&mut kinds.iter().rev().filter(|(_, by)| *by < 0));
    let sentence = |what: &str, list: String| if list.is_empty() { String::new() } else { format!(" {what}: {list}.") };
    let text = format!(
        "Written: {} before, {} now.{}{}",
        human(total(&pair.summary)),
        human(total(&view.answers.summary)),
        sentence("More", more),
        sentence("Less", less)
    );
    ChangeSummary { by, text }
}

fn by_kind(view: &View<'_>, pair: &Pair) -> BTreeMap<Kind, (KindRow, KindRow)> {
    let mut rows: BTreeMap<Kind, (KindRow, KindRow)> = BTreeMap::new();
    for kind in &pair.summary.kinds {
        rows.entry(kind.kind).or_default().0 = kind.clone();
    }
    for kind in &view.answers.summary.kinds {
        rows.entry(kind.kind).or_default().1 = kind.clone();
    }
    rows
}

fn kinds(out: &mut Html, view: &View<'_>, pair: &Pair) {
    let columns = [
        ("Kind", false),
        ("Written before", true),
        ("Written now", true),
        ("Change", true),
        ("Address space: change", true),
        ("Regions: change", true),
    ];
    let mut table = Table::new("kind-changes", "Kinds by growth of written bytes", &columns);
    let mut sorted: Vec<_> = by_kind(view, pair).into_iter().collect();
    let grew = |old: &KindRow, new: &KindRow| change(old.written.unwrap_or(0), new.written.unwrap_or(0));
    sorted.sort_by_key(|(kind, (old, new))| (Reverse(grew(old, new)), kind.name()));
    for (kind, (old, new)) in &sorted {
        table.rows.push(vec![
            Cell::Coloured(Family::of(*kind).class(), kind.name().to_owned()),
            Cell::Size(Some(old.written.unwrap_or(0))),
            Cell::Size(Some(new.written.unwrap_or(0))),
            Cell::SizeChange(Some(grew(old, new))),
            Cell::SizeChange(Some(change(old.size, new.size))),
            Cell::CountChange(Some(change(old.count, new.count))),
        ]);
    }
    let (old, new) = (&pair.summary.total, &view.answers.summary.total);
    table.foot.push(vec![
        Cell::Text("all".to_owned()),
        Cell::Size(old.written),
        Cell::Size(new.written),
        Cell::SizeChange(Some(change(old.written.unwrap_or(0), new.written.unwrap_or(0)))),
        Cell::SizeChange(Some(change(old.size, new.size))),
        Cell::CountChange(Some(change(old.count, new.count))),
    ]);
    out.leaf("h3", &[], "Kinds of memory");
    table.write(out);
}

/// Writes the table of triage's subjects. Each written byte belongs to one.
fn findings(out: &mut Html, view: &View<'_>, pair: &Pair) {
    let mut rows: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for finding in pair.triage.findings.iter().filter(|f| f.within.is_none()) {
        let row = rows.entry(finding.id).or_default();
        row.0 = row.0.saturating_add(finding.bytes.unwrap_or(0));
    }
    for finding in view.answers.triage.findings.iter().filter(|f| f.within.is_none()) {
        let row = rows.entry(finding.id).or_default();
        row.1 = row.1.saturating_add(finding.bytes.unwrap_or(0));
    }
    rows.retain(|_, (old, new)| *old > 0 || *new > 0);
    let columns = [("Subject", false), ("Before", true), ("Now", true), ("Change", true)];
    let mut table = Table::new("subject-changes", "Subjects by growth", &columns);
    let mut sorted: Vec<_> = rows.into_iter().collect();
    sorted.sort_by_key(|(id, (old, new))| (Reverse(change(*old, *new)), *id));
    for (id, (old, new)) in sorted {
        table.rows.push(vec![
            Cell::Text(id.replace('-', " ")),
            Cell::Size(Some(old)),
            Cell::Size(Some(new)),
            Cell::SizeChange(Some(change(old, new))),
        ]);
    }
    out.leaf("h3", &[], "Subjects");
    table.write(out);
}

fn types(out: &mut Html, pair: &Pair) {
    let Some(types) = pair.diff.types.as_ref().filter(|types| !types.is_empty()) else { return };
    let columns = [
        ("Type", false),
        ("Objects before", true),
        ("Objects now", true),
        ("Change", true),
        ("Bytes before", true),
        ("Bytes now", true),
        ("Change in bytes", true),
    ];
    let mut table = Table::new("type-changes", "Types by growth", &columns);
    table.filter = true;
    let mut sorted: Vec<_> = types.iter().collect();
    sorted.sort_by_key(|t| (Reverse(t.delta), Reverse(t.delta_count)));
    // Largest growth first and largest decrease last; the rows between are summed in one.
    let (first, between, last) = ends(&sorted);
    for row in first.iter().chain(last) {
        table.rows.push(vec![
            Cell::Code(row.name.clone()),
            Cell::Count(row.old_count),
            Cell::Count(row.new_count),
            Cell::CountChange(row.delta_count),
            Cell::Size(row.old),
            Cell::Size(row.new),
            Cell::SizeChange(row.delta),
        ]);
    }
    if !between.is_empty() {
        rest_row(
            &mut table,
            vec![
                Cell::Text(format!("{} more with smaller changes", exact(between.len() as u64))),
                Cell::Count(between.iter().map(|t| t.old_count).saturating_sum()),
                Cell::Count(between.iter().map(|t| t.new_count).saturating_sum()),
                Cell::CountChange(between.iter().map(|t| t.delta_count).saturating_sum()),
                Cell::Size(between.iter().map(|t| t.old).saturating_sum()),
                Cell::Size(between.iter().map(|t| t.new).saturating_sum()),
                Cell::SizeChange(between.iter().map(|t| t.delta).saturating_sum()),
            ],
        );
    }
    out.leaf("h3", &[], "Types");
    table.write(out);
}

fn blocks(out: &mut Html, pair: &Pair) {
    let Some(sizes) = pair.diff.malloc.as_ref().filter(|sizes| !sizes.is_empty()) else { return };
    let columns = [
        ("Block size", true),
        ("Separate mapping", false),
        ("Blocks before", true),
        ("Blocks now", true),
        ("Change", true),
        ("Change in bytes", true),
    ];
    let mut table = Table::new("block-changes", "Used malloc blocks by size and growth", &columns);
    let mut sorted: Vec<_> = sizes.iter().collect();
    sorted.sort_by_key(|s| (Reverse(s.delta), Reverse(s.delta_count)));
    let (first, between, last) = ends(&sorted);
    for row in first.iter().chain(last) {
        table.rows.push(vec![
            Cell::Size(Some(row.size)),
            Cell::Text(if row.mmapped { "yes" } else { "" }.to_owned()),
            Cell::Count(row.old_count),
            Cell::Count(row.new_count),
            Cell::CountChange(row.delta_count),
            Cell::SizeChange(row.delta),
        ]);
    }
    if !between.is_empty() {
        rest_row(
            &mut table,
            vec![
                Cell::Text(format!("{} more sizes with smaller changes", exact(between.len() as u64))),
                Cell::Text(String::new()),
                Cell::Count(between.iter().map(|s| s.old_count).saturating_sum()),
                Cell::Count(between.iter().map(|s| s.new_count).saturating_sum()),
                Cell::CountChange(between.iter().map(|s| s.delta_count).saturating_sum()),
                Cell::SizeChange(between.iter().map(|s| s.delta).saturating_sum()),
            ],
        );
    }
    out.leaf("h3", &[], "Used malloc blocks");
    table.write(out);
}

/// Returns the rows at both ends, and those between.
fn ends<T>(sorted: &[T]) -> (&[T], &[T], &[T]) {
    if sorted.len() <= MAX_ROWS {
        return (sorted, &[], &[]);
    }
    let (first, rest) = sorted.split_at(MAX_ROWS * 3 / 4);
    let (between, last) = rest.split_at(rest.len() - MAX_ROWS / 4);
    (first, between, last)
}

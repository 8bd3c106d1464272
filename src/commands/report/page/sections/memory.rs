//! The sections on where the memory is: the treemap with its table, and the strip of addresses.

use std::cmp::Reverse;

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{command, left_out};
use crate::commands::report::page::svg;
use crate::commands::report::page::table::{Cell, Table};
use crate::commands::report::pictures::{Family, Look};
use crate::sums::SaturatingSum;
use crate::units::{exact, human};

/// Writes the treemap and the table of kinds.
pub(super) fn memory(out: &mut Html, view: &View<'_>) {
    let summary = &view.answers.summary;
    out.leaf(
        "p",
        &[("class", &"note")],
        "The area of a box is its share of memory: kinds contain owners, owners contain regions. Types and blocks count with \
         their full size, even if some bytes were never written.",
    );
    out.open("div", &[("id", &"treemap-tools"), ("class", &"tools")]).close("div");
    svg::treemap(out, view.boxes);
    out.open("p", &[("id", &"treemap-line"), ("class", &"line"), ("aria-live", &"polite")]).close("p");
    svg::legend(out, &summary.kinds, false);
    let mut columns = vec![
        ("Kind", false),
        ("Regions", true),
        ("Written", true),
        ("Zero pages", true),
        ("In the core", true),
        ("Address space", true),
        ("Largest region", true),
    ];
    if summary.rss.is_some() {
        columns.push(("Resident", true));
    }
    let mut table = Table::new("kinds", "Kinds of memory", &columns);
    let mut kinds: Vec<_> = summary.kinds.iter().collect();
    kinds.sort_by_key(|kind| Reverse(kind.written));
    for kind in kinds {
        let mut cells = vec![
            Cell::Coloured(Family::of(kind.kind).class(), kind.kind.name().to_owned()),
            Cell::Count(Some(kind.count)),
            Cell::Size(kind.written),
            Cell::Size(kind.zero),
            Cell::Size(Some(kind.in_core)),
            Cell::Size(Some(kind.size)),
            Cell::Size(Some(kind.largest)),
        ];
        if summary.rss.is_some() {
            cells.push(Cell::Size(kind.resident.rss));
        }
        table.rows.push(cells);
    }
    let total = &summary.total;
    let mut sums = vec![
        Cell::Text("all".to_owned()),
        Cell::Count(Some(total.count)),
        Cell::Size(total.written),
        Cell::Size(total.zero),
        Cell::Size(Some(total.in_core)),
        Cell::Size(Some(total.size)),
        Cell::Text(String::new()),
    ];
    if summary.rss.is_some() {
        sums.push(Cell::Size(total.resident.rss));
    }
    table.foot.push(sums);
    table.write(out);
    command(out, view, "summary --zero-fill");
}

/// Writes the strip, and the table of the largest regions.
pub(super) fn map(out: &mut Html, view: &View<'_>) {
    out.open("div", &[("id", &"strip-tools"), ("class", &"tools")]).close("div");
    out.open("div", &[("id", &"strip")]).close("div");
    out.leaf("p", &[("id", &"strip-line"), ("class", &"line"), ("aria-live", &"polite")], "");
    out.open("p", &[("class", &"note needs-script")]);
    out.text("The strip of all addresses needs JavaScript.").close("p");
    let mut rows: Vec<usize> = (0..view.answers.regions.regions.len()).collect();
    let row = |i: &usize| view.answers.regions.regions.get(*i);
    // Regions with contents first: the largest are often reserved and empty.
    rows.sort_by_key(|i| row(i).map(|r| (r.kind.is_reserved(), std::cmp::Reverse(r.in_core), r.start)));
    let beyond = rows.split_off(view.limits.region_rows.min(rows.len()));
    let mut table = Table::new(
        "regions",
        "Largest regions by bytes in the core",
        &[
            ("Start", false),
            ("Size", true),
            ("In the core", true),
            ("Kind", false),
            ("Detail", false),
            ("Permissions", false),
            ("Confidence", false),
        ],
    );
    table.filter = true;
    for region in rows.iter().filter_map(row) {
        table.rows.push(vec![
            Cell::Address(region.start),
            Cell::Size(Some(region.size)),
            Cell::Size(Some(region.in_core)),
            Cell::Coloured(Family::of(region.kind).class(), region.kind.name().to_owned()),
            Cell::Text(region.detail.to_string()),
            Cell::Code(region.perms.clone()),
            Cell::Sure(region.confidence.name()),
        ]);
    }
    let (mut size, mut in_core) = (0_u64, 0_u64);
    for region in beyond.iter().filter_map(row) {
        size = size.saturating_add(region.size);
        in_core = in_core.saturating_add(region.in_core);
    }
    let (more, bytes) = left_out(view, "regions", "regions").unwrap_or_default();
    let count = beyond.len() as u64 + more;
    if count > 0 {
        let size = size.saturating_add(bytes.unwrap_or(0));
        let whole = view.answers.summary.total.in_core;
        let listed: u64 = rows.iter().filter_map(row).map(|r| r.in_core).saturating_sum();
        table.foot.push(vec![
            Cell::Text(format!("{} more", exact(count))),
            Cell::Size(Some(size)),
            Cell::Size(Some(if more > 0 { whole.saturating_sub(listed) } else { in_core })),
            Cell::Text("in the strip above".to_owned()),
            Cell::Text(String::new()),
            Cell::Text(String::new()),
            Cell::Text(String::new()),
        ]);
    }
    table.write(out);
    let text = format!("Total: {} of address space.", human(view.answers.summary.total.size));
    out.leaf("p", &[("class", &"note")], text);
    command(out, view, "regions");
}

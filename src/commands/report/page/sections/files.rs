//! The sections on the runtime's loader heaps, and on program and other files.

use std::collections::BTreeMap;

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::{command, left_out, rest_row};
use crate::commands::report::page::table::{Cell, Table};
use crate::commands::report::pictures::{Family, Look};
use crate::map::Kind;
use crate::map::kind_facts::Backing;
use crate::sums::SaturatingSum;
use crate::units::exact;

/// Writes the section on loader heaps and the GC's segments.
pub(super) fn runtime(out: &mut Html, view: &View<'_>) {
    let Some(heap) = &view.answers.heap else { return };
    if let Some(gc) = &heap.gc {
        let how = if gc.regions { "regions" } else { "segments" };
        let kind = if gc.server { "server" } else { "workstation" };
        let busy = if gc.in_progress { "; the dump was taken during a garbage collection" } else { "" };
        let text = format!(".NET {}, {kind} GC with {} heaps, by {how}{busy}.", gc.version, exact(gc.heaps));
        out.leaf("p", &[], text);
    }
    if let Some(loader) = heap.loader.as_ref().filter(|loader| !loader.is_empty()) {
        let columns = [("Heap", false), ("Allocator", false), ("Blocks", true), ("Committed", true), ("Wasted", true)];
        let mut table = Table::new("loader", "Loader heaps", &columns);
        for row in loader {
            table.rows.push(vec![
                Cell::Text(row.kind.name().to_owned()),
                Cell::Text(row.allocator.clone()),
                Cell::Count(Some(row.blocks.len() as u64)),
                Cell::Size(Some(row.size)),
                Cell::Size(Some(row.wasted)),
            ]);
        }
        let blank = || Cell::Text(String::new());
        if let Some((rows, bytes)) = left_out(view, "heap", "loader") {
            rest_row(
                &mut table,
                vec![Cell::Text(format!("{} more", exact(rows))), blank(), blank(), Cell::Size(bytes)],
            );
        } else {
            let sum =
                |of: fn(&crate::commands::dotnet::heap::LoaderHeapRow) -> u64| loader.iter().map(of).saturating_sum();
            let all = vec![
                Cell::Text("all".to_owned()),
                blank(),
                blank(),
                Cell::Size(Some(sum(|l| l.size))),
                Cell::Size(Some(sum(|l| l.wasted))),
            ];
            rest_row(&mut table, all);
        }
        out.leaf("h3", &[], "Loader heaps");
        table.write(out);
        command(out, view, "heap --loader");
    }
    let mut sums: BTreeMap<(u32, String), (u64, u64, u64)> = BTreeMap::new();
    for segment in &heap.segments {
        let sum = sums.entry((segment.heap, segment.generation.to_string())).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(segment.allocated), sum.2.saturating_add(segment.committed));
    }
    let columns = [("Heap", true), ("Generation", false), ("Segments", true), ("Allocated", true), ("Committed", true)];
    let mut table = Table::new("segments", "The collector's segments", &columns);
    for ((heap, generation), (segments, allocated, committed)) in sums {
        table.rows.push(vec![
            Cell::Count(Some(u64::from(heap))),
            Cell::Text(generation),
            Cell::Count(Some(segments)),
            Cell::Size(Some(allocated)),
            Cell::Size(Some(committed)),
        ]);
    }
    let all = vec![
        Cell::Text("all".to_owned()),
        Cell::Text(String::new()),
        Cell::Text(String::new()),
        Cell::Size(heap.allocated),
        Cell::Size(heap.committed),
    ];
    rest_row(&mut table, all);
    out.leaf("h3", &[], "The collector's segments");
    table.write(out);
}

/// Writes the section on modules and other mapped files.
pub(super) fn files(out: &mut Html, view: &View<'_>) {
    let mut table = Table::new(
        "modules",
        "Program files in memory",
        &[
            ("File", false),
            ("Base", false),
            ("Size", true),
            ("In the core", true),
            ("Form", false),
            ("Build id", false),
        ],
    );
    table.filter = true;
    for module in &view.answers.info.modules {
        table.rows.push(vec![
            Cell::Code(module.path.clone()),
            Cell::Address(module.base),
            Cell::Size(Some(module.size)),
            Cell::Size(Some(module.in_core)),
            Cell::Text(module.kind.map_or_else(|| "headers not in the core".to_owned(), |k| k.to_string())),
            Cell::Code(module.build_id.clone().unwrap_or_default()),
        ]);
    }
    if let Some((rows, bytes)) = left_out(view, "info", "modules") {
        let more = Cell::Text(format!("{} more", exact(rows)));
        rest_row(&mut table, vec![more, Cell::Text(String::new()), Cell::Size(bytes)]);
    }
    out.leaf("h3", &[], "Program files");
    table.write(out);
    command(out, view, "info");
    let mut sums: BTreeMap<(Kind, String), (u64, u64)> = BTreeMap::new();
    let is_other = |kind: Kind| matches!(kind.facts().backing, Backing::File | Backing::Shared | Backing::SecondView);
    for row in view.answers.regions.regions.iter().filter(|row| is_other(row.kind)) {
        let name = row.file.as_ref().map_or_else(|| row.detail.to_string(), ToString::to_string);
        let sum = sums.entry((row.kind, name)).or_default();
        *sum = (sum.0.saturating_add(row.size), sum.1.saturating_add(row.in_core));
    }
    if sums.is_empty() {
        return;
    }
    let columns = [("Mapped", false), ("Kind", false), ("Size", true), ("In the core", true)];
    let mut table = Table::new("mapped", "Other files and shared memory", &columns);
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|((_, name), (size, _))| (std::cmp::Reverse(*size), name.clone()));
    let rest = rows.split_off(view.limits.rows.min(rows.len()));
    for ((kind, name), (size, in_core)) in rows {
        table.rows.push(vec![
            Cell::Code(name),
            Cell::Coloured(Family::of(kind).class(), kind.name().to_owned()),
            Cell::Size(Some(size)),
            Cell::Size(Some(in_core)),
        ]);
    }
    if !rest.is_empty() {
        let sum = |of: fn(&(u64, u64)) -> u64| Cell::Size(Some(rest.iter().map(|(_, sums)| of(sums)).saturating_sum()));
        let more = Cell::Text(format!("{} more", exact(rest.len() as u64)));
        rest_row(&mut table, vec![more, Cell::Text(String::new()), sum(|s| s.0), sum(|s| s.1)]);
    }
    out.leaf("h3", &[], "Other files and shared memory");
    table.write(out);
    command(out, view, "regions --kind MappedFile --kind SharedMemory");
}

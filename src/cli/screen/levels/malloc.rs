//! The lists of malloc: used memory by equal blocks, and free memory by size and arena.

use coremap::commands::malloc::{ArenaRow, GroupClassRow, MallocReport};
use coremap::program::units::{count, exact, human, round};
use coremap::report::{ClusterRow, SizeClassRow};

use crate::cli::screen::level::{Column, Level, Mark, Opens, Row, Sort, at};

/// Keys of rows that open further lists.
const USED: &str = "used";
const FREE: &str = "free";
const SMALL: &str = "small blocks";

pub(super) fn level(report: &MallocReport, grouping: usize, path: &[String]) -> Option<Level> {
    let level = match path.first().map(String::as_str) {
        None if grouping == 1 => by_arena(report),
        None => by_use(report),
        Some(USED) => clusters(report),
        Some(FREE) => sizes(report),
        Some(SMALL) => small(report)?,
        Some(_) => return None,
    };
    Some(level.with_shares())
}

/// Names the allocators, and malloc's total memory.
fn note(report: &MallocReport) -> String {
    let name = |a: &coremap::commands::malloc::AllocatorRow| {
        let walked = if a.walked { "" } else { " (its blocks are not read)" };
        format!("{}{walked}", a.name)
    };
    let names: Vec<String> = report.allocators.iter().map(name).collect();
    if names.is_empty() {
        return "no known allocator found".to_owned();
    }
    let trim = report.total.trimmable;
    let trim =
        if trim > 0 { format!("; malloc_trim(0) would return {} to the system", round(trim)) } else { String::new() };
    format!("{}: {} committed{trim}", names.join(", "), human(report.total.committed))
}

fn row(key: &str, name: impl Into<String>, bytes: u64) -> Row {
    Row {
        key: key.to_owned(),
        name: name.into(),
        bytes: Some(bytes),
        about: vec![("bytes", exact(bytes))],
        ..Row::default()
    }
}

fn counted(row: Row, blocks: u64) -> Row {
    Row { count: Some(blocks), cells: vec![exact(blocks)], ..row }
}

/// Divides malloc's memory. The parts add up to the committed bytes, as far as malloc's structures can be followed.
fn by_use(report: &MallocReport) -> Level {
    let total = &report.total;
    let command = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>());
    let into = |row: Row| Row { opens: Opens::Level, command: command(&["malloc"]), ..row };
    let mut rows = vec![
        into(counted(row(USED, "used by the program", total.used_bytes), total.used)),
        into(counted(row(FREE, "free", total.free_bytes), total.free)),
    ];
    let rest = [
        ("top", "top chunks of arenas", total.top),
        ("trimmed", "released, still mapped", total.trimmed),
        ("overhead", "malloc's own structures", total.overhead),
        ("foreign", "sbrk by others", total.foreign),
        ("unknown", "not in the core or damaged", total.unknown),
    ];
    let rest = rest.into_iter().filter(|(_, _, bytes)| *bytes > 0);
    rows.extend(rest.map(|(key, name, bytes)| Row { cells: vec![String::new()], ..row(key, name, bytes) }));
    // This is in addition to malloc's own memory, and in no sum here.
    let mut note = note(report);
    if let Some(small) = &report.pymalloc {
        note.push_str(&format!("; in addition {}: {}", small.name, human(small.committed)));
        let text = format!("{}, a separate allocator (not in these sums)", small.name);
        let mut one = Row { name: text, about: vec![("bytes", exact(small.committed))], ..row(SMALL, "", 0) };
        one.bytes = None;
        one.cells = vec![exact(small.pools)];
        rows.push(into(one));
    }
    if report.allocators.is_empty() {
        rows.clear();
    }
    Level {
        noun: "part",
        measure: "Bytes",
        name: "Use",
        columns: vec![Column::number("Blocks", 2)],
        rows,
        sort: Sort::Given,
        note: Some(note),
        ..Level::default()
    }
}

fn clusters(report: &MallocReport) -> Level {
    let one = |cluster: &ClusterRow| {
        let example = at(cluster.example);
        let begins = match (cluster.fill, cluster.symbol.as_ref(), cluster.first_word) {
            (Some(fill), _, _) => format!("all {fill:#04x}"),
            (None, Some(symbol), _) => format!("begin with {symbol}"),
            (None, None, Some(word)) => format!("begin with {word}"),
            (None, None, None) => "different beginnings".to_owned(),
        };
        let noted = cluster.category.as_ref().map_or_else(String::new, |category| format!(", {category}"));
        let mapped = if cluster.mmapped { ", separate mappings" } else { "" };
        let mut row = row(&format!("{} {example}", cluster.size), begins, cluster.bytes);
        row.name = format!("{} ({}{noted}{mapped})", row.name, cluster.kind);
        row.count = Some(cluster.count);
        row.cells = vec![exact(cluster.count), exact(cluster.size), exact(cluster.free)];
        row.about.push(("example", example.clone()));
        row.about.push(("free blocks of that size", exact(cluster.free)));
        row.opens = Opens::Command;
        row.command = Some(vec!["refs".into(), example]);
        row
    };
    let left = report.clusters_total.saturating_sub(report.clusters.len() as u64);
    let more = if left > 0 { format!("; {} more are not listed", exact(left)) } else { String::new() };
    let note = format!("blocks of equal size and first bytes{more}; Enter: pointers to one of them");
    Level {
        noun: "cluster",
        measure: "Bytes",
        name: "Common content",
        columns: vec![Column::number("Blocks", 2), Column::number("Size", 1), Column::number("Free", 5)],
        rows: report.clusters.iter().map(one).collect(),
        note: Some(note),
        ..Level::default()
    }
}

fn sizes(report: &MallocReport) -> Level {
    let one = |class: &SizeClassRow| {
        let mut row =
            row(&class.size_class.to_string(), format!("up to {}", round(class.size_class)), class.free_bytes);
        row.count = Some(class.free);
        row.cells = vec![exact(class.free), exact(class.used), human(class.used_bytes)];
        row.command = Some(vec!["malloc".into()]);
        row.opens = Opens::Command;
        row
    };
    let columns = vec![Column::number("Free", 2), Column::number("Used", 3), Column::number("Bytes used", 4)];
    let note = "free blocks by size: powers of two".to_owned();
    Level {
        noun: "class",
        measure: "Bytes",
        name: "Size",
        columns,
        rows: report.sizes.iter().map(one).collect(),
        note: Some(note),
        ..Level::default()
    }
}

fn by_arena(report: &MallocReport) -> Level {
    let one = |arena: &ArenaRow| {
        let address = at(arena.address);
        let mut row = row(&address, if arena.main { "main".to_owned() } else { address.clone() }, arena.committed);
        row.count = Some(arena.used);
        row.cells = vec![human(arena.used_bytes), human(arena.free_bytes), human(arena.top), exact(arena.used)];
        row.about.push(("largest free", human(arena.largest_free)));
        let most = arena.max_system_mem.map_or_else(|| "-".to_owned(), human);
        row.about.push(("high water", most));
        row.about.push(("confidence", arena.confidence.name().to_owned()));
        row.command = Some(vec!["malloc".into()]);
        row.opens = Opens::Command;
        row.mark = if arena.unknown > 0 { Mark::Warning } else { Mark::None };
        row
    };
    let mut rows: Vec<Row> = report.arenas.iter().map(one).collect();
    if report.mmapped.count > 0 {
        let mapped = &report.mmapped;
        let mut row = row("(mmapped)", "blocks with separate mappings", mapped.bytes);
        row.count = Some(mapped.count);
        row.cells = vec![human(mapped.bytes), "-".into(), "-".into(), exact(mapped.count)];
        rows.push(row);
    }
    if let Some(musl) = &report.mallocng {
        let sum = |of: fn(&GroupClassRow) -> u64| musl.classes.iter().map(of).fold(0, u64::saturating_add);
        let (used, free) = (sum(|c| c.used_bytes), sum(|c| c.free_bytes));
        let mut row = row("mallocng", "groups of slots of one size", used.saturating_add(free));
        row.count = Some(sum(|c| c.used));
        row.cells = vec![human(used), human(free), "-".into(), exact(sum(|c| c.used))];
        rows.push(row);
    }
    for heap in &report.others {
        let mut row = row(&heap.name, heap.name.clone(), heap.committed);
        row.count = Some(heap.used.count);
        row.cells = vec![human(heap.used.bytes), human(heap.free.bytes), "-".into(), exact(heap.used.count)];
        rows.push(row);
    }
    let columns = vec![
        Column::number("Used", 1),
        Column::number("Free", 2),
        Column::number("Top", 4),
        Column::number("Blocks", 3),
    ];
    let (noun, name) = ("arena", "Arena");
    Level { noun, measure: "Committed", name, columns, rows, note: Some(note(report)), ..Level::default() }
}

/// Lists a runtime's small-block allocator.
fn small(report: &MallocReport) -> Option<Level> {
    let small = report.pymalloc.as_ref()?;
    let one = |class: &coremap::commands::malloc::SmallClassRow| {
        let name = format!("blocks of {}", count(class.size, "byte"));
        let mut row = row(&class.size.to_string(), name, class.blocks_used.saturating_mul(class.size));
        row.count = Some(class.blocks_used);
        row.cells = vec![exact(class.blocks_used), exact(class.blocks_free), exact(class.pools)];
        row
    };
    let note = format!(
        "{} in {}; {} used, {} free in used pools, {} in free pools",
        human(small.committed),
        count(small.arenas, "arena"),
        human(small.bytes_used),
        human(small.bytes_free),
        human(small.bytes_free_pools)
    );
    let columns = vec![Column::number("Used", 2), Column::number("Free", 3), Column::number("Pools", 4)];
    let rows = small.classes.iter().map(one).collect();
    let (noun, name) = ("class", "Size");
    Some(Level { noun, measure: "Bytes used", name, columns, rows, note: Some(note), ..Level::default() })
}

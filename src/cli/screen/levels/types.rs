//! The lists of managed objects by type, and of the commands for one type.

use std::collections::HashMap;

use coremap::addr::Addr;
use coremap::commands::heapstat::HeapStatReport;
use coremap::commands::retained::RetainedReport;
use coremap::program::units::{count, exact, human};
use coremap::report::TypeRow;

use crate::cli::screen::level::{Column, Level, Opens, Row, Sort};

/// Name of free space between objects in the listings of all runtimes.
const FREE: &str = "Free";

/// String types, whose equal values can be counted.
const STRINGS: [&str; 3] = ["System.String", "java.lang.String", "str"];

pub(super) fn level(report: &HeapStatReport, retained: Option<&RetainedReport>, path: &[String]) -> Option<Level> {
    let Some(key) = path.first() else { return Some(all(report, retained)) };
    report.types.iter().find(|kind| key_of(kind) == *key).map(asked_of)
}

fn key_of(kind: &TypeRow) -> String {
    format!("{} {}", kind.method_table, kind.name)
}

fn all(report: &HeapStatReport, retained: Option<&RetainedReport>) -> Level {
    let tracked = report.types.iter().any(|kind| kind.tracked.is_some());
    let retained = retained.filter(|retained| !retained.native);
    let bytes: HashMap<(Addr, &str), u64> = retained
        .into_iter()
        .flat_map(|report| report.types.iter().map(|kind| ((kind.method_table, &*kind.name), kind.retained)))
        .collect();
    let row = |kind: &TypeRow| {
        let mut about = vec![("bytes", exact(kind.size)), ("type at", kind.method_table.to_string())];
        let each = kind.size.checked_div(kind.count);
        about.extend(each.map(|each| ("each", format!("{} on average", human(each)))));
        let generation_text =
            |g: &coremap::report::GenerationRow| format!("{} {} in {}", g.generation, human(g.size), exact(g.count));
        let generations: Vec<String> = kind.generations.iter().map(generation_text).collect();
        if !generations.is_empty() {
            about.push(("generations", generations.join(", ")));
        }
        let mut cells = vec![exact(kind.count)];
        if tracked {
            cells.push(kind.tracked.map_or_else(|| "-".to_owned(), exact));
        }
        if retained.is_some() {
            cells.push(
                bytes.get(&(kind.method_table, &*kind.name)).map_or_else(|| "-".to_owned(), |bytes| human(*bytes)),
            );
        }
        Row {
            key: key_of(kind),
            name: kind.name.to_string(),
            bytes: Some(kind.size),
            count: Some(kind.count),
            cells,
            about,
            command: Some(vec!["heapstat".into(), "--type".into(), exactly(&kind.name)]),
            opens: Opens::Questions,
            ..Row::default()
        }
    };
    let mut columns = vec![Column::number("Objects", 2)];
    if tracked {
        columns.push(Column::number("Tracked", 5));
    }
    if retained.is_some() {
        columns.push(Column::number("Retained", 1));
    }
    let objects = report.total.objects.saturating_sub(report.free.objects);
    let size = report.total.size.saturating_sub(report.free.size);
    let mut note = format!("{} in {}", human(size), count(objects, "object"));
    if report.free.size > 0 {
        note.push_str(&format!("; {} free between them", human(report.free.size)));
    }
    if report.in_progress {
        note.push_str("; taken during a garbage collection: objects being moved are missed or counted twice");
    }
    if report.types.is_empty() {
        note = "no managed heap found".to_owned();
    }
    Level {
        noun: "type",
        measure: "Bytes",
        name: "Type",
        columns,
        // Free space is no object.
        rows: report.types.iter().filter(|kind| &*kind.name != FREE).map(row).collect(),
        note: Some(note),
        ..Level::default()
    }
    .with_shares()
}

/// Returns a regular expression that matches only this name.
fn exactly(name: &str) -> String {
    format!("^{}$", regex::escape(name))
}

/// Lists the commands for a type. Each walks the heap.
fn asked_of(kind: &TypeRow) -> Level {
    let ask = |key: &str, name: &str, words: &[&str]| Row {
        key: key.to_owned(),
        name: name.to_owned(),
        command: Some(words.iter().map(|&word| word.to_owned()).collect()),
        opens: Opens::Command,
        ..Row::default()
    };
    let name = exactly(&kind.name);
    let mut rows = Vec::new();
    rows.push(ask("roots", "Paths from roots to these objects, merged", &["gcroot", "--type", &name]));
    rows.push(ask("retained", "Memory that these objects retain", &["retained", "--type", &name]));
    rows.push(ask("objects", "List of the objects", &["objects", "--type", &name]));
    if STRINGS.contains(&&*kind.name) {
        rows.push(ask("strings", "Waste by equal strings", &["heapstat", "--strings"]));
    }
    rows.push(ask("generations", "Size by generation", &["heapstat", "--type", &name]));
    let note = format!("{} in {}", human(kind.size), count(kind.count, "object"));
    Level { noun: "question", name: "Question", rows, sort: Sort::Given, note: Some(note), ..Level::default() }
}

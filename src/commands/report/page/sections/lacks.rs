//! The section on missing data: memory that is not in the core, could not be read, or was omitted from the page.

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::command;
use crate::commands::report::page::table::{Cell, Table};

pub(super) fn lacks(out: &mut Html, view: &View<'_>) {
    let completeness = &view.answers.info.completeness;
    let columns = [("Memory", false), ("Bytes", true)];
    let mut table = Table::new("completeness", "Memory in the core and missing from it", &columns);
    for (what, bytes) in [
        ("mapped in the process", completeness.mapped),
        ("in the core", completeness.in_core),
        ("writable memory not in the core", completeness.writable_missing),
        ("file mappings not in the core", completeness.file_missing),
        ("shared memory, sockets' buffers and devices not in the core", completeness.shared_missing),
        ("missing at the end of the truncated file", completeness.truncated),
    ] {
        table.rows.push(vec![Cell::Text(what.to_owned()), Cell::Size(Some(bytes))]);
    }
    out.leaf("h3", &[], "The core");
    table.write(out);
    list(out, completeness.notes.iter().cloned());
    command(out, view, "info");
    if !view.warnings.is_empty() {
        out.leaf("h3", &[], "Warnings");
        list(out, view.warnings.iter().map(|w| format!("{}: {}", w.code, w.message)));
    }
    out.leaf("h3", &[], "This page");
    if view.left_out.is_empty() {
        out.leaf("p", &[], "This page contains every row of its lists.");
    } else {
        let columns = [("Answer", false), ("List", false), ("Rows omitted", true), ("Bytes", true)];
        let mut table = Table::new("left-out", "Rows omitted from this page", &columns);
        for row in view.left_out {
            table.rows.push(vec![
                Cell::Code(format!("coremap {}", row.part)),
                Cell::Code(row.list.clone()),
                Cell::Count(Some(row.rows)),
                Cell::Size(row.bytes),
            ]);
        }
        table.write(out);
    }
    let data = if view.show_data {
        "This page contains string texts, arguments and environment values (--show-data). Share it with care."
    } else {
        "String texts, program arguments and environment values are hidden. Names of types, methods, threads and files are \
         included."
    };
    out.leaf("p", &[], data);
    let text =
        "The element with id “data” contains the same data as JSON: one object per command, as its --json prints it.";
    out.leaf("p", &[("class", &"note")], text);
    command(out, view, "check --report THIS-PAGE.html");
}

fn list(out: &mut Html, sentences: impl Iterator<Item = String>) {
    out.open("ul", &[]);
    for sentence in sentences {
        out.leaf("li", &[], sentence);
    }
    out.close("ul");
}

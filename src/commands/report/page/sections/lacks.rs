//! What the core does not hold, what could not be read, and what the page leaves out.

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::sections::command;
use crate::commands::report::page::table::{Cell, Table};

/// Write it.
pub(super) fn lacks(out: &mut Html, view: &View<'_>) {
    let completeness = &view.answers.info.completeness;
    let columns = [("What the core holds", false), ("Bytes", true)];
    let mut table = Table::new("completeness", "What the core holds and lacks", &columns);
    for (what, bytes) in [
        ("mapped in the process", completeness.mapped),
        ("held by the core", completeness.in_core),
        ("writable memory that was left out", completeness.writable_missing),
        ("file mappings that were left out", completeness.file_missing),
        ("cut off at the end of the file", completeness.truncated),
    ] {
        table.rows.push(vec![Cell::Text(what.to_owned()), Cell::Size(Some(bytes))]);
    }
    out.leaf("h3", &[], "The core");
    table.write(out);
    list(out, completeness.notes.iter().cloned());
    command(out, view, "info");
    if !view.warnings.is_empty() {
        out.leaf("h3", &[], "What could not be read or understood");
        list(out, view.warnings.iter().map(|w| format!("{}: {}", w.code, w.message)));
    }
    out.leaf("h3", &[], "This page");
    if view.left_out.is_empty() {
        out.leaf("p", &[], "Its data has every row of the lists it shows.");
    } else {
        let columns = [("Answer", false), ("List", false), ("Rows left out", true), ("Their bytes", true)];
        let mut table = Table::new("left-out", "Rows that are not in this page", &columns);
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
        "Texts of strings, arguments and the environment's values are in this page (--show-data): think of who gets it."
    } else {
        "Texts of strings, the program's arguments and values of the environment are not in this page. Names of types, \
         methods, threads and files are."
    };
    out.leaf("p", &[], data);
    let text = "Machines read the same answers in the element with the id “data”: JSON with an object of what each command \
                says with --json.";
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

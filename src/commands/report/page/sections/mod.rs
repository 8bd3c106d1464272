//! The sections of a page, in order.

mod answer;
mod changes;
mod files;
pub(super) mod head;
mod heap;
mod lacks;
mod memory;
mod native;
mod threads;

use crate::commands::report::page::View;
use crate::commands::report::page::html::Html;
use crate::commands::report::page::table::{Cell, Table};

/// A section: its id, its name in links, its heading, and the function that writes it.
type Section = (&'static str, &'static str, &'static str, fn(&mut Html, &View<'_>));

/// Writes all sections that this process has data for.
pub(super) fn all(out: &mut Html, view: &View<'_>) {
    let sections = sections(view);
    out.open("header", &[]);
    head::head(out, view);
    out.open("nav", &[("aria-label", &"Sections")]);
    for (id, link, ..) in &sections {
        out.leaf("a", &[("href", &format!("#{id}"))], link);
    }
    out.close("nav").close("header").open("main", &[]);
    for (id, _, title, write) in sections {
        out.open("section", &[("id", &id), ("aria-labelledby", &format!("h-{id}"))]);
        out.leaf("h2", &[("id", &format!("h-{id}"))], title);
        write(out, view);
        out.close("section");
    }
    out.close("main");
}

fn sections(view: &View<'_>) -> Vec<Section> {
    let answers = view.answers;
    let mut all: Vec<Section> = vec![("answer", "Findings", "Findings", answer::answer)];
    if view.pair.is_some() {
        all.push(("changes", "Changes", "What changed", changes::changes));
    }
    all.push(("memory", "Memory", "Memory by kind and owner", memory::memory));
    all.push(("map", "Addresses", "Address space", memory::map));
    all.push(("threads", "Threads", "Threads", threads::threads));
    if answers.heapstat.is_some() {
        all.push(("heap", "Managed heap", "Managed heap", heap::heap));
    }
    all.push(("native", "Native", "Native memory", native::native));
    if answers.heap.is_some() {
        all.push(("runtime", "Runtime", "Runtime heaps", files::runtime));
    }
    all.push(("files", "Files", "Program files and other files", files::files));
    all.push(("lacks", "Missing data", "Data missing from the core and the page", lacks::lacks));
    all
}

/// Writes the command that shows the same data.
fn command(out: &mut Html, view: &View<'_>, command: &str) {
    whole_command(out, &format!("coremap {command} {}", view.path));
}

/// Writes a paragraph. Text between back-ticks becomes code.
fn prose(out: &mut Html, text: &str) {
    out.open("p", &[]);
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            out.leaf("code", &[], part);
        } else {
            out.text(part);
        }
    }
    out.close("p");
}

/// Writes a complete command line.
fn whole_command(out: &mut Html, line: &str) {
    out.open("p", &[("class", &"cmd")]).leaf("code", &[], line).close("p");
}

/// Adds a row that sums what a table omits: its name in the first column, sums in the others.
fn rest_row(table: &mut Table, mut cells: Vec<Cell>) {
    cells.truncate(table.columns.len());
    while cells.len() < table.columns.len() {
        cells.push(Cell::Text(String::new()));
    }
    table.foot.push(cells);
}

/// Returns the rows and bytes that the page omits from a list.
fn left_out(view: &View<'_>, part: &str, list: &str) -> Option<(u64, Option<u64>)> {
    let cut = view.left_out.iter().filter(|l| l.part == part && l.list == list);
    cut.map(|l| (l.rows, l.bytes)).next()
}

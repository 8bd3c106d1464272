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
use crate::shell;

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
    whole_command(out, view, &format!("coremap {command} {}", view.path));
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

/// Writes a complete command line, with the names of the cores. Their paths are at the top of the page.
fn whole_command(out: &mut Html, view: &View<'_>, line: &str) {
    let paths = std::iter::once(&view.core.path).chain(view.pair.map(|pair| &pair.core.path));
    let line = paths.fold(line.to_owned(), |line, path| with_name(&line, path));
    out.open("p", &[("class", &"cmd")]).leaf("code", &[], line).close("p");
}

/// Replaces the last argument that is `path` by its file name.
fn with_name(line: &str, path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (path, name) = (shell::quoted(path), shell::quoted(name));
    match line.strip_suffix(path.as_str()).filter(|before| before.ends_with(' ')) {
        Some(before) => format!("{before}{name}"),
        None => line.replace(&format!(" {path} "), &format!(" {name} ")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_file_only() {
        let line = |path: &str| format!("coremap gcroot 0x10 {}", shell::quoted(path));
        assert_eq!(with_name(&line("/home/ann/cores/core.7"), "/home/ann/cores/core.7"), "coremap gcroot 0x10 core.7");
        assert_eq!(with_name(&line("/a b/my core"), "/a b/my core"), "coremap gcroot 0x10 'my core'");
        assert_eq!(with_name("coremap diff /a/old /b/new", "/a/old"), "coremap diff old /b/new");
        assert_eq!(with_name("coremap info /proc/47", "/proc/47"), "coremap info 47");
        // Part of another word is no path.
        assert_eq!(with_name("coremap search x/a core", "/a"), "coremap search x/a core");
    }
}

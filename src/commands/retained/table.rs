//! The tables of `retained`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::retained::report::{RetainedReport, RetainedRow};
use crate::render::document::{Document, TableBlock, exact_or_dash, percent};
use crate::render::lines::{not_read_line, stack_lines};
use crate::render::{Render, csv_rows};
use crate::report::Name;
use crate::units::{count, exact};

/// Maximum number of types of unreachable objects shown.
const UNREACHABLE: usize = 5;

impl Render for RetainedReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let no_blocks = self.native && self.live.objects == 0 && self.unreachable.objects == 0;
        match &self.object {
            None if self.live.objects == 0 && (no_blocks || !self.native && self.roots.is_empty()) => {
                doc.line("no managed heap and no malloc blocks were found");
                return doc;
            }
            Some(object) if object.name.is_none() => {
                doc.line(format!("no object or malloc block at {}", object.object));
                return doc;
            }
            Some(object) => {
                object_lines(&mut doc, object, &self.dominators);
                if object.retained.is_none() {
                    not_read_line(&mut doc, &self.not_read);
                    return doc;
                }
            }
            None => total_lines(&mut doc, self),
        }
        doc.line("");
        if self.types.is_empty() && self.native && self.object.is_some() {
            doc.line("it retains no other block");
        } else if self.types.is_empty() {
            doc.line("no live objects match");
        } else {
            doc.table(type_table(self));
            if self.more_types > 0 {
                doc.line(format!("and {}; --top N shows more", count(self.more_types, "more type")));
            }
        }
        if !self.objects.is_empty() {
            doc.line("");
            doc.table(object_table(self));
        }
        if self.object.is_none() && !self.unreachable_types.is_empty() {
            doc.line("");
            doc.table(unreachable_table(self));
        }
        if self.object.is_none() && !self.native {
            doc.line("");
            stack_lines(&mut doc, &self.stacks);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            of: &'static str,
            address: Addr,
            r#type: Option<&'a str>,
            count: u64,
            size: Option<u64>,
            retained: Option<u64>,
            dominator: Option<Addr>,
            dominator_type: Option<&'a str>,
            dominator_field: Option<&'a str>,
            root_kind: Option<&'a str>,
        }
        let types = self.types.iter().map(|t| Row {
            of: "type",
            address: t.method_table,
            r#type: Some(&t.name),
            count: t.count,
            size: Some(t.size),
            retained: Some(t.retained),
            ..Row::default()
        });
        let objects = self.objects.iter().map(|o| Row {
            of: "object",
            address: o.object,
            r#type: o.name.as_deref(),
            count: 1,
            size: o.size,
            retained: o.retained,
            dominator: o.dominator,
            dominator_type: o.dominator_type.as_deref(),
            dominator_field: o.dominator_field.as_deref(),
            root_kind: o.root_kind.as_deref(),
        });
        csv_rows(&types.chain(objects).collect::<Vec<_>>(), out)
    }
}

fn total_lines(doc: &mut Document<'_>, report: &RetainedReport) {
    let (live, dead) = (report.live, report.unreachable);
    let whole = live.size.saturating_add(dead.size);
    let mut table = TableBlock::default().text("Retained by").number("Roots").number("Retained").number("%").bar();
    let mut row = |what: &str, count: String, size: u64| {
        table.rows.push(vec![what.to_owned(), count, exact(size), percent(size, whole)]);
    };
    for root in &report.roots {
        let what = match report.native {
            true => root.root_kind.clone(),
            false => format!("{} only", root.root_kind),
        };
        row(&what, exact(root.count), root.retained);
    }
    row(if report.native { "several roots" } else { "several kinds of roots" }, String::new(), report.several);
    let is_certain = report.not_read.is_empty();
    row(if is_certain { "none (unreachable)" } else { "none that was read" }, String::new(), dead.size);
    table.footer = Some(vec!["[TOTAL]".into(), String::new(), exact(whole), String::new()]);
    doc.table(table);
    let (what, suffix) = if report.native { ("malloc block", " that roots reach") } else { ("live object", "") };
    doc.line(format!(
        "{}{suffix}, {} bytes; {} {}, {} bytes",
        count(live.objects, what),
        exact(live.size),
        exact(dead.objects),
        if is_certain { "unreachable" } else { "not reached" },
        exact(dead.size)
    ));
    not_read_line(doc, &report.not_read);
}

fn object_lines(doc: &mut Document<'_>, object: &RetainedRow, dominators: &[RetainedRow]) {
    let name = titled(object.name.as_ref(), object.title.as_ref());
    let size = format!("{} bytes", exact_or_dash(object.size));
    // A block without a class has its size for a name.
    let what = if name.starts_with(&size) { name } else { format!("{name}, {size}") };
    let Some(retained) = object.retained else {
        doc.line(format!("{} {what}: not reachable from any root", object.object));
        return;
    };
    doc.line(format!("{} {what}, retains {} bytes", object.object, exact(retained)));
    for row in std::iter::once(object).chain(dominators) {
        match row.dominator {
            Some(_) => doc.line(format!("    retained by {}", holder(row))),
            None => doc.line(format!("    retained by roots: {}", holder(row))),
        }
    }
    if dominators.last().is_some_and(|last| last.dominator.is_some()) {
        doc.line("    …");
    }
}

/// Returns the title of an object, with its type in parentheses. Without a title, only the type.
fn titled(name: Option<&Name>, title: Option<&String>) -> String {
    let name = name.map_or_else(|| "?".into(), Name::shown);
    title.map_or(name.clone(), |title| format!("{title} ({name})"))
}

/// Describes what retains an object.
fn holder(row: &RetainedRow) -> String {
    if let Some(dominator) = row.dominator {
        let name = titled(row.dominator_type.as_ref(), row.dominator_title.as_ref());
        let field = match &row.dominator_field {
            Some(field) if field.starts_with(['[', '(']) => format!(" {field}"),
            Some(field) => format!(" .{field}"),
            None => " …".into(),
        };
        return format!("{dominator} {name}{field}");
    }
    if let Some(name) = &row.root_name {
        return name.clone();
    }
    let thread = row.thread.map(|t| format!(" of thread {t}")).unwrap_or_default();
    match (row.root_kind.as_deref(), row.root_address) {
        (kind, Some(at)) => {
            let others = if kind == Some("several") && row.root_kinds.len() == 1 { " and others" } else { "" };
            format!("{}{others}{thread} at {at}", row.root_kinds.join(", "))
        }
        (Some("several"), None) => "roots of several kinds".into(),
        (Some(kind), None) => format!("several {kind}"),
        (None, None) => "-".into(),
    }
}

fn type_table(report: &RetainedReport) -> TableBlock<'_> {
    // Most blocks have no class.
    let mut table = if report.native { TableBlock::default() } else { TableBlock::default().text("MT") };
    table = table.number("Count").number("TotalSize").number("Retained");
    table = table.type_name(if report.native { "Block" } else { "Class Name" });
    for t in &report.types {
        let mut row = vec![exact(t.count), exact(t.size), exact(t.retained), t.name.shown()];
        if !report.native {
            row.insert(0, t.method_table.to_string());
        }
        table.rows.push(row);
    }
    table
}

fn object_table(report: &RetainedReport) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .text(if report.native { "Address" } else { "Object" })
        .number("Size")
        .optional()
        .number("Retained")
        .type_name(if report.native { "Block" } else { "Class Name" })
        .least(18);
    // With a requested object, it is the same for all rows.
    let inside = report.object.is_some();
    table = if inside { table.flexible("Field") } else { table.flexible("Retained by").least(30) };
    for o in &report.objects {
        let by = if inside { o.dominator_field.as_ref().map_or_else(|| "…".into(), Name::shown) } else { holder(o) };
        table.rows.push(vec![
            o.object.to_string(),
            exact_or_dash(o.size),
            exact_or_dash(o.retained),
            titled(o.name.as_ref(), o.title.as_ref()),
            by,
        ]);
    }
    table
}

fn unreachable_table(report: &RetainedReport) -> TableBlock<'_> {
    let title = if report.not_read.is_empty() { "Unreachable MT" } else { "Not reached MT" };
    let mut table = TableBlock::default().text(title).number("Count").number("TotalSize").type_name("Class Name");
    for t in report.unreachable_types.iter().take(UNREACHABLE) {
        table.rows.push(vec![t.method_table.to_string(), exact(t.count), exact(t.size), t.name.to_string()]);
    }
    table
}

use std::io::{self, Write};

use crate::commands::dotnet::handles::report::{HandleGroupRow, HandlesReport};
use crate::commands::dotnet::{add_unread, empty_line};
use crate::render::brief::{LISTED_ROWS, RANKED_ROWS};
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::Name;
use crate::units::{count, exact};

impl Listing for HandlesReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let groups = self.groups.iter_mut().map(|groups| groups as &mut dyn List);
        std::iter::once(&mut self.handles as &mut dyn List).chain(groups).collect()
    }
}

impl Render for HandlesReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.handles.is_empty() {
            doc.line(empty_line("handles", &self.unread, ""));
            return doc;
        }
        if let Some(groups) = &self.groups {
            doc.table(group_table(groups));
            totals(&mut doc, self);
            return doc;
        }
        let mut table = TableBlock::default()
            .text("Handle")
            .text("Kind")
            .text("Object")
            .type_name("Type")
            .least(34)
            .text("Secondary")
            .optional()
            .brief(LISTED_ROWS, "handle");
        for h in &self.handles {
            table.rows.push(vec![
                h.address.to_string(),
                h.kind.to_string(),
                h.object.to_string(),
                h.name.as_ref().map_or_else(|| "-".into(), Name::shown),
                h.secondary.map_or_else(String::new, |s| s.to_string()),
            ]);
        }
        doc.table(table);
        totals(&mut doc, self);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.groups {
            Some(groups) => csv_rows(groups, out),
            None => csv_rows(&self.handles, out),
        }
    }
}

fn totals(doc: &mut Document<'_>, report: &HandlesReport) {
    let kinds: Vec<String> = report.kinds.iter().map(|k| format!("{} {}", exact(k.count), k.kind)).collect();
    doc.line(format!("{}: {}", count(report.handles.len() as u64, "handle"), kinds.join(", ")));
    add_unread(doc, "handles", &report.unread);
}

fn group_table(groups: &[HandleGroupRow]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .number("Handles")
        .number("Bytes")
        .text("Kind")
        .text("Example")
        .optional()
        .type_name("Type")
        .least(34)
        .brief(RANKED_ROWS, "group")
        .bytes(|i| groups.get(i).map_or(0, |g| g.bytes));
    for g in groups {
        table.rows.push(vec![
            exact(g.count),
            exact(g.bytes),
            g.kind.to_string(),
            g.example.to_string(),
            g.name.as_ref().map_or_else(|| "-".into(), Name::shown),
        ]);
    }
    table
}

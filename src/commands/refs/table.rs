//! The table of `refs`.

use std::io::{self, Write};

use crate::commands::refs::report::{RefRow, RefsReport, TargetRow};
use crate::map::Kind;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{Name, TargetKind};
use crate::units::{count, exact, human};

impl Listing for RefsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.refs]
    }
}

impl Render for RefsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(format!("pointers to {}", target(&self.target)));
        if let Some(owner) = &self.target.owner {
            doc.line(format!("  {}; retains {} bytes", owner.line(), exact(owner.retained)));
        }
        let inside = match self.inside {
            0 => String::new(),
            n => format!("; not counted: {} inside it", count(n, "word")),
        };
        if self.total == 0 {
            doc.line(format!("none found in the registers and {} of memory{inside}", human(self.scanned)));
            return doc;
        }
        let offsets = self.refs.iter().any(|r| r.offset != 0);
        let mut table = TableBlock::default().text("From").text("Address");
        if offsets {
            table = table.number("To");
        }
        table = table.flexible("Where");
        for r in &self.refs {
            let mut cells = vec![r.from.to_string(), r.address.map_or_else(|| "-".into(), |a| a.to_string())];
            if offsets {
                cells.push(format!("+{:#x}", r.offset));
            }
            cells.push(place(r));
            table.rows.push(cells);
        }
        doc.table(table);
        let counts: Vec<String> = self.counts.iter().map(|c| format!("{} {}", exact(c.count), c.from)).collect();
        let more = match self.total - self.refs.len() as u64 {
            0 => String::new(),
            n => format!("; {} more are not listed (--limit)", exact(n)),
        };
        doc.line(format!(
            "{} found in {} of memory: {}{inside}{more}",
            exact(self.total),
            human(self.scanned),
            counts.join(", ")
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.refs, out)
    }
}

fn target(t: &TargetRow) -> String {
    let name = t.name.as_ref().map_or_else(String::new, |n| format!(" {}", n.shown()));
    let kind = t.kind.map_or("not mapped", Kind::name);
    let range = match t.what {
        TargetKind::Address => t.start.to_string(),
        _ => format!("{}-{} ({} bytes)", t.start, t.end, exact(t.end.since(t.start))),
    };
    let detail = if t.detail.is_empty() || t.name.is_some() { String::new() } else { format!(": {}", t.detail) };
    format!("{}{name} {range}, {kind}{detail}", t.what)
}

fn place(r: &RefRow) -> String {
    match (&r.name, r.thread, r.register) {
        (Some(name), _, _) => {
            let field = r.field.as_ref().map(Name::shown).unwrap_or_default();
            let dot = if field.is_empty() || field.starts_with('[') { "" } else { "." };
            let object = r.object.unwrap_or_default();
            format!("{object} {}{dot}{field}", name.shown())
        }
        (_, Some(thread), Some(register)) => format!("{register} of thread {thread}"),
        _ => match &r.owner {
            Some(owner) => format!("{} ({owner})", r.detail),
            None => r.detail.clone(),
        },
    }
}

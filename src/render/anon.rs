//! Anonymous memory as a document.

use std::io::{self, Write};

use crate::render::document::{Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::report::{AnonReport, BlockClusterRow};
use crate::units::{exact, human, round};

impl Render for AnonReport {
    fn document(&self) -> Document {
        let mut doc = Document::default();
        if self.clusters.is_empty() {
            doc.line("no anonymous memory that something else does not claim");
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Blocks")
            .number("Of size")
            .number("Together")
            .number("In core")
            .optional()
            .text("Content")
            .text("Example")
            .flexible("Owner (a guess)")
            .least(20);
        for c in &self.clusters {
            table.rows.push(vec![
                exact(c.count),
                round(c.size),
                human(c.bytes),
                human(c.in_core),
                content(c),
                c.example.to_string(),
                c.owner.clone().unwrap_or_else(|| "-".into()),
            ]);
        }
        doc.table(table);
        let more = match self.more {
            0 => String::new(),
            n => format!("; {} smaller clusters are not listed", exact(n)),
        };
        doc.line(format!(
            "{} in {} regions that no heap, stack or runtime claims, {} of it in the core{more}",
            human(self.size),
            exact(self.regions),
            human(self.in_core)
        ));
        if self.clusters.iter().any(|c| c.borders == "pointers") {
            doc.line("Blocks within a region are told apart by the pointers to their starts.");
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.clusters, out)
    }
}

fn content(c: &BlockClusterRow) -> String {
    match (&c.fill, c.content) {
        (Some(fill), "fill") => format!("all {fill}"),
        (_, "text") => format!("text {}%", c.text_percent.unwrap_or(0)),
        (_, "pointers") => format!("pointers {}%", c.pointer_percent.unwrap_or(0)),
        (_, other) => other.to_owned(),
    }
}

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
            .text("Owner (a guess)");
        for c in &self.clusters {
            table.rows.push(vec![
                exact(c.count),
                round(c.size),
                human(c.bytes),
                human(c.in_core),
                content(c),
                c.example.to_string(),
                shortly(c),
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
        for c in self.clusters.iter().filter(|c| c.bytes >= TOLD).take(OWNERS) {
            if let Some(owner) = &c.owner {
                doc.line(format!("· {} × {}, a guess: {owner}", exact(c.count), round(c.size)));
            }
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.clusters, out)
    }
}

/// Clusters whose owner is told in full, and from how many bytes on.
const OWNERS: usize = 8;
const TOLD: u64 = 1 << 20;

/// What sort of owner it is.
fn shortly(c: &BlockClusterRow) -> String {
    match c.owners.first().filter(|_| c.owner.is_some()) {
        None => "-".into(),
        Some(o) => match (&o.name, &o.module) {
            (Some(_), _) if o.objects == 1 => "an object".into(),
            (Some(_), _) => format!("{} objects", exact(o.objects)),
            (None, Some(module)) => module.clone(),
            (None, None) => o.from.clone(),
        },
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

//! Anonymous memory as a document.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
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
            .text("Content")
            .text("Example")
            .flexible("Owner (a guess)");
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
        csv_rows(&self.clusters.iter().map(Row::of).collect::<Vec<_>>(), out)
    }
}

/// A cluster in CSV, which has no room for the list of owners.
#[derive(Default, Serialize)]
struct Row<'a> {
    size: u64,
    count: u64,
    bytes: u64,
    in_core: u64,
    content: &'a str,
    fill: Option<&'a str>,
    text_percent: Option<u64>,
    pointer_percent: Option<u64>,
    example: Addr,
    borders: &'a str,
    owner: Option<&'a str>,
    confidence: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn of(c: &'a BlockClusterRow) -> Row<'a> {
        Row {
            size: c.size,
            count: c.count,
            bytes: c.bytes,
            in_core: c.in_core,
            content: c.content,
            fill: c.fill.as_deref(),
            text_percent: c.text_percent,
            pointer_percent: c.pointer_percent,
            example: c.example,
            borders: c.borders,
            owner: c.owner.as_deref(),
            confidence: c.confidence,
        }
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

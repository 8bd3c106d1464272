//! The table of `anon`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::anon::report::{AnonReport, BlockClusterRow};
use crate::map::Confidence;
use crate::render::brief::RANKED_ROWS;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{BlockBorders, BlockContent};
use crate::units::{count, exact, human, round};

impl Listing for AnonReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.clusters]
    }
}

impl Render for AnonReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.clusters.is_empty() {
            doc.line("no anonymous memory without a known owner");
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Blocks")
            .number("Block size")
            .number("Total")
            .number("In core")
            .optional_rank(2)
            .number("Written")
            .optional()
            .flexible("Content")
            .cut(Cut::End)
            .least(24)
            .text("Example")
            .flexible("Owner (guess)")
            .brief(RANKED_ROWS, "cluster")
            .bytes(|i| self.clusters.get(i).map_or(0, |c| c.bytes));
        for c in &self.clusters {
            table.rows.push(vec![
                exact(c.count),
                round(c.size),
                human(c.bytes),
                human(c.in_core),
                human(c.written),
                content(c),
                c.example.to_string(),
                shortly(c),
            ]);
        }
        doc.table(table);
        let more = match self.more {
            0 => String::new(),
            n => format!("; {} not listed", count(n, "smaller cluster")),
        };
        doc.line(format!(
            "{} in {} without a known owner, {} of it in the core{more}",
            human(self.size),
            count(self.regions, "region"),
            human(self.in_core)
        ));
        let filled: Vec<String> =
            self.contents.iter().take(MAX_CONTENTS).map(|c| format!("{} {}", human(c.bytes), c.filled_with)).collect();
        if !filled.is_empty() {
            let more = if self.contents.len() > MAX_CONTENTS { ", …" } else { "" };
            doc.line(format!("Content by page, without zero pages: {}{more}", filled.join(", ")));
        }
        let cut = |borders| self.clusters.iter().any(|c| c.borders == borders);
        match (cut(BlockBorders::Pointers), cut(BlockBorders::Content)) {
            (true, false) => doc.line("Blocks within a region are delimited by the pointers to their starts."),
            (false, true) => doc.line("Blocks within a region are delimited by changes in content."),
            (true, true) => {
                doc.line(
                    "Blocks within a region are delimited by the pointers to their starts and by changes in content.",
                );
            }
            (false, false) => {}
        }
        for c in self.clusters.iter().filter(|c| c.bytes >= MIN_BYTES).take(MAX_OWNERS) {
            if let Some(owner) = &c.owner {
                doc.line(format!("· {} × {}, probably owned by {owner}", exact(c.count), round(c.size)));
            }
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.clusters.iter().map(Row::of).collect::<Vec<_>>(), out)
    }
}

/// A cluster in CSV, without the list of owners.
#[derive(Default, Serialize)]
struct Row<'a> {
    size: u64,
    count: u64,
    bytes: u64,
    in_core: u64,
    content: BlockContent,
    fill: Option<&'a str>,
    text_percent: Option<u64>,
    pointer_percent: Option<u64>,
    example: Addr,
    borders: BlockBorders,
    owner: Option<&'a str>,
    confidence: Option<Confidence>,
    written: u64,
    word: Option<&'a str>,
    filled_with: Option<&'a str>,
    into: Option<&'a str>,
    content_percent: Option<u64>,
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
            written: c.written,
            word: c.word.as_deref(),
            filled_with: c.filled_with.as_deref(),
            into: c.into.as_deref(),
            content_percent: c.content_percent,
        }
    }
}

/// Maximum number of clusters whose owner is described in full, and their minimum size in bytes.
const MAX_OWNERS: usize = 8;
const MIN_BYTES: u64 = 1 << 20;

/// Maximum number of contents shown below the table.
const MAX_CONTENTS: usize = 6;

/// Returns the kind of owner in one word.
fn shortly(c: &BlockClusterRow) -> String {
    match c.owners.first().filter(|_| c.owner.is_some()) {
        None => "-".into(),
        Some(o) => match (&o.name, &o.module) {
            (Some(_), _) if o.objects == 1 => "1 object".into(),
            (Some(_), _) => count(o.objects, "object"),
            (None, Some(module)) => module.clone(),
            (None, None) => o.from.to_string(),
        },
    }
}

fn content(c: &BlockClusterRow) -> String {
    let Some(what) = &c.filled_with else { return c.content.to_string() };
    let share = c.content_percent.unwrap_or(100);
    if let Some(word) = &c.word {
        return format!("word {word} {share}%");
    }
    match (&c.fill, c.content) {
        (Some(fill), BlockContent::Fill) if share == 100 && c.written == c.in_core => format!("all {fill}"),
        (Some(fill), BlockContent::Fill) => format!("{fill} {share}%"),
        _ if share < 100 => format!("{what} {share}%"),
        _ => what.clone(),
    }
}

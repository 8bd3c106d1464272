//! The tables of `heapstat`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::heapstat::report::{FreeBlockRow, HeapStatReport, StringsRow};
use crate::render::brief::RANKED_ROWS;
use crate::render::document::{Cut, Document, TableBlock, percent};
use crate::render::lines::not_read_line;
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{Generation, TypeRow};
use crate::sums::SaturatingSum;
use crate::units::{count, exact};

/// Maximum number of free blocks shown.
const BLOCKS: usize = 20;

/// Maximum number of addresses shown at which the walk failed.
const PLACES: usize = 5;

impl Listing for HeapStatReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let strings = self.strings.iter_mut().map(|strings| &mut strings.duplicates as &mut dyn List);
        std::iter::once(&mut self.types as &mut dyn List).chain(strings).collect()
    }
}

impl Render for HeapStatReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.types.is_empty() {
            doc.line("no matching objects");
        } else {
            doc.table(type_table(self));
        }
        if let Some(reach) = &self.reach {
            doc.line(match reach.live {
                true => "objects that roots reach",
                false if reach.not_read.is_empty() => "objects that no root reaches: a collection would free them",
                false => "objects that no root reaches, of those that were read",
            });
            not_read_line(&mut doc, &reach.not_read);
        }
        if self.free.objects > 0 {
            // Share of the requested objects, if there are any.
            let share = match self.total.size {
                0 => String::new(),
                total => format!(" ({} %)", percent(self.free.size, total.max(self.free.size))),
            };
            let (blocks, size) = (count(self.free.objects, "block"), exact(self.free.size));
            doc.line(format!("free between objects: {blocks}, {size} bytes{share}"));
        }
        if !self.fragmentation.is_empty() {
            doc.line("");
            doc.table(block_table(&self.fragmentation));
            let more = self.fragmentation.len().saturating_sub(BLOCKS);
            if more > 0 {
                doc.line(format!("and {} more blocks", exact(more as u64)));
            }
        }
        if self.in_progress {
            doc.line("! the dump was taken during a garbage collection");
        }
        if self.lost.count > 0 {
            let bytes = exact(self.lost.bytes);
            doc.line(format!(
                "! {bytes} bytes in {} could not be walked and are not counted:",
                count(self.lost.count, "range")
            ));
            for place in self.lost.places.iter().take(PLACES) {
                let range = &place.range;
                doc.line(format!("! {}-{} {} bytes: {}", range.start, range.end, exact(range.size), place.reason));
            }
        }
        if let Some(strings) = &self.strings {
            doc.line("");
            string_lines(&mut doc, strings);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.strings {
            Some(strings) => csv_rows(&strings.duplicates, out),
            None => csv_rows(&self.types.iter().map(CsvRow::of).collect::<Vec<_>>(), out),
        }
    }
}

/// Columns as in SOS, but largest types first.
fn type_table(report: &HeapStatReport) -> TableBlock<'_> {
    // `tracked` is set only for runtimes whose collector does not track all objects. Without them there is no column.
    let tracked = report.types.iter().any(|t| t.tracked.is_some());
    let several = report.types.iter().any(|t| t.runtime.is_some());
    let graded = report.types.iter().any(|t| t.grade.is_some());
    let mut table = TableBlock::default().text("MT").number("Count");
    if tracked {
        table = table.number("Tracked");
    }
    table = table.number("TotalSize");
    if several {
        table = table.text("Runtime");
    }
    if graded {
        table = table.text("Known");
    }
    table = table.type_name("Class Name");
    table = table.brief(RANKED_ROWS, "type").bytes(|i| report.types.get(i).map_or(0, |t| t.size));
    for t in &report.types {
        let known = tracked.then(|| t.tracked.map_or_else(String::new, exact));
        let runtime = several.then(|| t.runtime.as_deref().unwrap_or_default().to_owned());
        let grade = graded.then(|| t.grade.unwrap_or_default().to_owned());
        let (count, size) = (exact(t.count), exact(t.size));
        let cells = [Some(t.method_table.to_string()), Some(count), known, Some(size), runtime, grade, Some(name(t))];
        table.rows.push(cells.into_iter().flatten().collect());
    }
    let known = tracked.then(|| exact(report.types.iter().filter_map(|t| t.tracked).saturating_sum()));
    let (objects, size) = (exact(report.total.objects), exact(report.total.size));
    let runtime = several.then(String::new);
    let grade = graded.then(String::new);
    let cells = [Some("[TOTAL]".into()), Some(objects), known, Some(size), runtime, grade, Some(String::new())];
    table.footer = Some(cells.into_iter().flatten().collect());
    table
}

/// A type's name, with the place of its constructor if names are not unique: `Entry (app.js:12)`.
fn name(row: &TypeRow) -> String {
    let Some(script) = row.script.as_deref() else { return row.name.to_string() };
    let line = row.line.map_or_else(String::new, |line| format!(":{line}"));
    let file = script.rsplit('/').next().unwrap_or(script);
    format!("{} ({file}{line})", row.name)
}

fn block_table(blocks: &[FreeBlockRow]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .text("Free block")
        .number("Size")
        .text("Generation")
        .text("Followed by")
        .type_name("Class Name");
    let mut worst: Vec<&FreeBlockRow> = blocks.iter().collect();
    worst.sort_by_key(|b| (std::cmp::Reverse(b.size), b.address));
    for b in worst.into_iter().take(BLOCKS) {
        table.rows.push(vec![
            b.address.to_string(),
            exact(b.size),
            b.generation.to_owned(),
            b.next.map_or_else(|| "end of segment".into(), |a| a.to_string()),
            b.next_type.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn string_lines<'a>(doc: &mut Document<'a>, strings: &'a StringsRow) {
    doc.line(format!(
        "{}, {} bytes; {} different, {} bytes wasted on duplicates",
        count(strings.total.objects, "string"),
        exact(strings.total.size),
        exact(strings.distinct),
        exact(strings.wasted)
    ));
    if strings.duplicates.is_empty() {
        return;
    }
    let mut table =
        TableBlock::default().number("Count").number("Length").number("Wasted").flexible("String").cut(Cut::End);
    table = table.brief(RANKED_ROWS, "content").bytes(|i| strings.duplicates.get(i).map_or(0, |d| d.wasted));
    for d in &strings.duplicates {
        let value = if d.cut { format!("{}…", d.value) } else { d.value.clone() };
        table.rows.push(vec![exact(d.count), exact(u64::from(d.length)), exact(d.wasted), value]);
    }
    doc.table(table);
}

#[derive(Default, Serialize)]
struct CsvRow<'a> {
    method_table: Addr,
    r#type: &'a str,
    count: u64,
    size: u64,
    gen0: u64,
    gen1: u64,
    gen2: u64,
    loh: u64,
    poh: u64,
    frozen: u64,
    ephemeral: u64,
    tracked: Option<u64>,
    runtime: Option<&'a str>,
}

impl<'a> CsvRow<'a> {
    fn of(row: &'a TypeRow) -> CsvRow<'a> {
        let size = |generation: Generation| {
            row.generations.iter().find(|g| g.generation == generation.name()).map_or(0, |g| g.size)
        };
        CsvRow {
            method_table: row.method_table,
            r#type: &row.name,
            count: row.count,
            size: row.size,
            gen0: size(Generation::Gen0),
            gen1: size(Generation::Gen1),
            gen2: size(Generation::Gen2),
            loh: size(Generation::Loh),
            poh: size(Generation::Poh),
            frozen: size(Generation::Frozen),
            ephemeral: size(Generation::Ephemeral),
            tracked: row.tracked,
            runtime: row.runtime.as_deref(),
        }
    }
}

//! The tables of `heap`.

use std::io::{self, Write};

use serde::Serialize;

use crate::commands::dotnet::heap::report::{HeapReport, IsolateRow, LoaderHeapRow, SpaceRow};
use crate::commands::dotnet::{add_unread, empty_line};
use crate::map::Kind;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::sums::SaturatingSum;
use crate::units::{count, exact, human};

/// Show the heaps of all runtimes.
const ELSEWHERE: &str = "; `coremap regions` lists the regions of every heap, `coremap heapstat` its objects";

impl Listing for HeapReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let mut lists: Vec<&mut dyn List> = vec![&mut self.segments];
        lists.extend(self.loader.as_mut().map(|heaps| heaps as &mut dyn List));
        lists
    }
}

impl Render for HeapReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        match &self.gc {
            Some(gc) => doc.line(format!(
                "{} GC of .NET {}: {}, {}{}",
                if gc.server { "server" } else { "workstation" },
                gc.version,
                count(gc.heaps, "heap"),
                if gc.regions { "regions" } else { "segments" },
                if gc.in_progress { "; the dump was taken during a garbage collection" } else { "" }
            )),
            None if !self.isolates.is_empty() => {}
            None if self.stats.is_some() => {}
            None if self.unread.is_empty() => doc.line("no .NET runtime with a readable heap"),
            None => doc.line(empty_line("heap segments", &self.unread, ELSEWHERE)),
        }
        if !self.segments.is_empty() {
            doc.table(segment_table(self));
        }
        if let Some(stats) = &self.stats {
            let mut table = TableBlock::default().text("Figure").number("Value");
            table.rows.extend(stats.iter().map(|(name, value)| vec![(*name).to_owned(), exact(*value)]));
            doc.table(table);
        }
        if let (Some(allocated), Some(committed)) = (self.allocated, self.committed) {
            let free = self.free_committed.unwrap_or(0);
            doc.line(match free {
                0 => format!("allocated {} bytes, committed {} bytes", exact(allocated), exact(committed)),
                _ => format!(
                    "allocated {} bytes, committed {} bytes: {} in segments, {} in free ones",
                    exact(allocated),
                    exact(committed.saturating_add(free)),
                    exact(committed),
                    exact(free)
                ),
            });
        }
        if let Some(loader) = &self.loader {
            doc.line("");
            doc.table(loader_table(loader));
        }
        for isolate in &self.isolates {
            isolate_lines(&mut doc, isolate);
        }
        if self.gc.is_some() {
            add_unread(&mut doc, "heap segments", &self.unread);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        // As with --strings and --chunks, the CSV has only the list that was requested.
        match &self.loader {
            Some(loader) => {
                let rows = loader.iter().map(|l| LoaderCsv {
                    kind: l.kind,
                    allocator: &l.allocator,
                    blocks: l.blocks.len(),
                    size: l.size,
                    wasted: l.wasted,
                });
                csv_rows(&rows.collect::<Vec<_>>(), out)
            }
            None => csv_rows(&self.segments, out),
        }
    }
}

#[derive(Default, Serialize)]
struct LoaderCsv<'a> {
    kind: Kind,
    allocator: &'a str,
    blocks: usize,
    size: u64,
    wasted: u64,
}

/// Shows an isolated heap with its spaces.
fn isolate_lines<'a>(doc: &mut Document<'a>, isolate: &'a IsolateRow) {
    let sum = |bytes: fn(&SpaceRow) -> u64| isolate.spaces.iter().map(bytes).saturating_sum();
    let thread = isolate.tid.map_or_else(String::new, |tid| format!(", thread {tid}"));
    doc.line(format!(
        "isolate {}{thread}: {} in pages, {} in objects; {} outside with {}; {} reserved for code",
        isolate.name,
        human(sum(|space| space.size)),
        human(sum(|space| space.used)),
        count(isolate.array_buffers.count, "ArrayBuffer"),
        human(isolate.array_buffers.bytes),
        human(isolate.code_reserve),
    ));
    let mut table = TableBlock::default().text("Space").number("Pages").number("Objects");
    for space in &isolate.spaces {
        table.rows.push(vec![space.name.to_owned(), exact(space.size), exact(space.used)]);
    }
    doc.table(table);
}

fn segment_table(report: &HeapReport) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .number("Heap")
        .text("Generation")
        .text("Segment")
        .optional_rank(2)
        .text("Start")
        .text("Allocated to")
        .text("Committed to")
        .optional()
        .text("Reserved to")
        .optional_rank(3)
        .number("Allocated")
        .number("Committed");
    for s in &report.segments {
        table.rows.push(vec![
            s.heap.to_string(),
            s.generation.to_string(),
            s.address.to_string(),
            s.start.to_string(),
            s.end.to_string(),
            s.committed_end.to_string(),
            s.reserved_end.to_string(),
            human(s.allocated),
            human(s.committed),
        ]);
    }
    let mut footer = vec![String::new(); table.columns.len()];
    footer[0] = "[TOTAL]".into();
    footer[7] = report.allocated.map_or_else(String::new, human);
    footer[8] = report.committed.map_or_else(String::new, human);
    table.footer = Some(footer);
    table
}

fn loader_table(rows: &[LoaderHeapRow]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .text("Loader heap")
        .number("Blocks")
        .number("Committed")
        .number("Bytes")
        .optional()
        .number("Wasted")
        .flexible("Of")
        .least(30);
    for r in rows {
        table.rows.push(vec![
            r.kind.to_string(),
            exact(r.blocks.len() as u64),
            human(r.size),
            exact(r.size),
            human(r.wasted),
            r.allocator.clone(),
        ]);
    }
    let sum = |f: fn(&LoaderHeapRow) -> u64| rows.iter().map(f).fold(0, u64::saturating_add);
    table.footer = Some(vec![
        "[TOTAL]".into(),
        exact(sum(|r| r.blocks.len() as u64)),
        human(sum(|r| r.size)),
        exact(sum(|r| r.size)),
        human(sum(|r| r.wasted)),
        String::new(),
    ]);
    table
}

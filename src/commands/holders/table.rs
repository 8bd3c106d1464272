//! The table of `holders`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::holders::report::{HolderRow, HoldersReport};
use crate::render::brief::RANKED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::ChunkSum;
use crate::units::{count, exact, human};

impl Listing for HoldersReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.holders]
    }
}

impl Render for HoldersReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.holders.is_empty() {
            doc.line("no object points at a malloc block or an anonymous mapping");
            self.add_owned(&mut doc);
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Objects")
            .number("Malloc")
            .number("Blocks")
            .number("Mmap")
            .number("Blocks")
            .number("Reaches")
            .optional()
            .text("Example")
            .optional()
            .type_name("Type and field")
            .least(30)
            .brief(RANKED_ROWS, "field")
            .omitted(self.more);
        for h in &self.holders {
            table.rows.push(vec![
                exact(h.objects),
                bytes(&h.malloc),
                number(&h.malloc),
                bytes(&h.mmap),
                number(&h.mmap),
                h.reaches.as_ref().map_or_else(|| "-".into(), bytes),
                h.object.to_string(),
                place(h),
            ]);
        }
        doc.table(table);
        let t = &self.total;
        doc.line(format!(
            "objects point at {} ({}) and at {} or blocks in them ({})",
            count(t.malloc.count, "malloc block"),
            human(t.malloc.bytes),
            count(t.mmap.count, "anonymous mapping"),
            human(t.mmap.bytes)
        ));
        self.add_owned(&mut doc);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            r#type: Option<&'a str>,
            field: Option<&'a str>,
            objects: u64,
            malloc_blocks: u64,
            malloc_bytes: u64,
            mmap_blocks: u64,
            mmap_bytes: u64,
            reaches_bytes: Option<u64>,
            object: Addr,
            block: Addr,
        }
        let rows = self.holders.iter().map(|h| Row {
            r#type: h.name.as_deref(),
            field: h.field.as_deref(),
            objects: h.objects,
            malloc_blocks: h.malloc.count,
            malloc_bytes: h.malloc.bytes,
            mmap_blocks: h.mmap.count,
            mmap_bytes: h.mmap.bytes,
            reaches_bytes: h.reaches.map(|r| r.bytes),
            object: h.object,
            block: h.block,
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

impl HoldersReport {
    /// Adds a line for each type that owns native memory.
    fn add_owned(&self, doc: &mut Document<'_>) {
        for row in &self.buffers {
            let (name, field) = (row.name.shown(), row.field.shown());
            let own = if row.objects == 1 { "owns" } else { "own" };
            let (bytes, memory, object) = (human(row.bytes), row.memory, row.object);
            doc.line(format!(
                "{} {name} {own} {bytes} through {field} ({memory}); the largest owner is {object}",
                exact(row.objects)
            ));
        }
    }
}

fn bytes(sum: &ChunkSum) -> String {
    if sum.count == 0 { "-".into() } else { human(sum.bytes) }
}

fn number(sum: &ChunkSum) -> String {
    if sum.count == 0 { "-".into() } else { exact(sum.count) }
}

fn place(h: &HolderRow) -> String {
    let name = h.name.as_ref().map_or_else(|| "?".into(), |n| n.shown());
    match &h.field {
        Some(field) => format!("{name}.{}", field.shown()),
        None => name,
    }
}

use std::io::{self, Write};

use crate::commands::leaks::report::LeaksReport;
use crate::render::clusters::{CHUNKS, cluster_table};
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact, human};

impl Listing for LeaksReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let blocks = self.blocks.iter_mut().map(|blocks| blocks as &mut dyn List);
        std::iter::once(&mut self.clusters as &mut dyn List).chain(blocks).collect()
    }
}

impl Render for LeaksReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let sum = |s: &crate::report::ChunkSum| format!("{}, {}", count(s.count, "block"), human(s.bytes));
        if self.used.count == 0 {
            doc.line("no block of the C library's malloc is in use, or none was found");
            return doc;
        }
        if let Some(blocks) = self.blocks.as_ref().filter(|b| !b.is_empty()) {
            let mut table = TableBlock::default().text("Block").number("Chunk").text("Held by");
            table = table.brief(CHUNKS, "block").beyond(self.leaked.count.saturating_sub(blocks.len() as u64));
            table = table.bytes(|i| blocks.get(i).map_or(0, |b| b.size));
            for b in blocks {
                let by = if b.direct { "nobody" } else { "leaked blocks" };
                table.rows.push(vec![b.address.to_string(), exact(b.size), by.to_owned()]);
            }
            doc.table(table);
        } else if self.leaked.count > 0 {
            doc.table(cluster_table(&self.clusters, self.clusters_total, true));
        }
        doc.line(format!(
            "leaked: {}; of these {} that no other leaked block points at",
            sum(&self.leaked),
            sum(&self.direct)
        ));
        doc.line(format!("reachable: {}; in use: {}", sum(&self.reachable), sum(&self.used)));
        doc.line(format!(
            "Leaked is what no word of {} outside the heap, and of blocks reached from there, leads into. Words that only \
             look like pointers may hide leaks; pointers that are stored in another form would make leaks of what is none.",
            human(self.scanned)
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.blocks {
            Some(blocks) => csv_rows(blocks, out),
            None => csv_rows(&self.clusters, out),
        }
    }
}

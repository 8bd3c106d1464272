use std::io::{self, Write};

use crate::commands::leaks::report::LeaksReport;
use crate::render::clusters::{CHUNKS, SHOWN, cluster_table, more};
use crate::render::document::{Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::units::{exact, human};

impl Render for LeaksReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let sum = |s: &crate::report::ChunkSum| format!("{} blocks, {}", exact(s.count), human(s.bytes));
        if self.used.count == 0 {
            doc.line("no block of glibc's malloc is in use, or none was found");
            return doc;
        }
        if let Some(blocks) = self.blocks.as_ref().filter(|b| !b.is_empty()) {
            let mut table = TableBlock::default().text("Block").number("Chunk").text("Held by");
            for b in blocks.iter().take(CHUNKS) {
                let by = if b.direct { "nobody" } else { "leaked blocks" };
                table.rows.push(vec![b.address.to_string(), exact(b.size), by.to_owned()]);
            }
            doc.table(table);
            more(&mut doc, self.leaked.count, blocks.len().min(CHUNKS));
        } else if self.leaked.count > 0 {
            doc.table(cluster_table(&self.clusters, true));
            more(&mut doc, self.clusters_total, self.clusters.len().min(SHOWN));
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

use std::io::{self, Write};

use crate::commands::leaks::report::LeaksReport;
use crate::render::clusters::{DEFAULT_CHUNKS, cluster_table};
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::NativeHeldRow;
use crate::units::{count, exact, human};

/// Default number of groups shown.
const DEFAULT_GROUPS: usize = 5;

/// Describes the groups that begin alike.
fn group_line(group: &NativeHeldRow) -> String {
    let groups = group.elements.unwrap_or(1).max(1);
    let each = count(group.blocks.checked_div(groups).unwrap_or(0).max(1), "block");
    let structure = group.structure.as_ref().map_or_else(String::new, |structure| format!("; {structure}"));
    let begins = group.path.first().map_or("", String::as_str);
    let texts: Vec<String> = group.texts.iter().map(|text| format!("\"{text}\"")).collect();
    let doubt = group.doubt.as_ref().map_or_else(String::new, |doubt| format!("; may be in use: {doubt}"));
    let texts = if texts.is_empty() { String::new() } else { format!("; text {}", texts.join(", ")) };
    format!("{} of {each}, {}: {begins}{structure}{texts}{doubt}", count(groups, "group"), human(group.bytes))
}

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
            doc.line("no used blocks of the C library's malloc found");
            return doc;
        }
        if let Some(blocks) = self.blocks.as_ref().filter(|b| !b.is_empty()) {
            let mut table = TableBlock::default().text("Block").number("Chunk").text("Pointed at by");
            table = table.brief(DEFAULT_CHUNKS, "block").omitted(self.leaked.count.saturating_sub(blocks.len() as u64));
            table = table.bytes(|i| blocks.get(i).map_or(0, |b| b.size));
            for b in blocks {
                let by = if b.direct { "nothing" } else { "unreachable blocks" };
                table.rows.push(vec![b.address.to_string(), exact(b.size), by.to_owned()]);
            }
            doc.table(table);
        } else if self.leaked.count > 0 {
            doc.table(cluster_table(&self.clusters, self.clusters_total, true));
        }
        for group in self.groups.iter().take(DEFAULT_GROUPS) {
            doc.line(group_line(group));
        }
        doc.line(format!(
            "unreachable: {}; of these, {} have no pointer from another unreachable block",
            sum(&self.leaked),
            sum(&self.direct)
        ));
        doc.line(format!("reachable: {}; in use: {}", sum(&self.reachable), sum(&self.used)));
        doc.line(format!(
            "A block is unreachable if no word points into it, in {} of memory outside the heap or in a reachable block. Not \
             proof of a leak: encoded pointers are missed, and words that only look like pointers hide leaks.",
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

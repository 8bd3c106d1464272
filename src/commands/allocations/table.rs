use std::io::{self, Write};

use serde::Serialize;

use crate::commands::allocations::report::{AllocationSiteRow, AllocationsReport};
use crate::render::brief::RANKED_ROWS;
use crate::render::{Document, List, Listing, Render, TableBlock, csv_rows};
use crate::units::{exact, human};

impl Listing for AllocationsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.sites]
    }
}

impl Render for AllocationsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let Some(rate) = self.rate else {
            doc.line("no heap profile: the runtime samples none, or its records were not found");
            return doc;
        };
        let default = if self.rate_is_default { " (the default rate)" } else { "" };
        doc.line(format!(
            "One sample per {}{default}; bytes are estimates, in use as of the end of the last collection.",
            human(rate)
        ));
        let mut table =
            TableBlock::default().number("In use").number("Objects").number("Allocated").flexible("Allocated by");
        table = table.brief(RANKED_ROWS, "stack").bytes(|i| self.sites.get(i).map_or(0, |s| s.scaled.inuse_bytes));
        for site in &self.sites {
            let (used, objects) = (exact(site.scaled.inuse_bytes), exact(site.scaled.inuse_objects));
            table.rows.push(vec![used, objects, exact(site.scaled.alloc_bytes), site.place()]);
        }
        doc.table(table);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.sites.iter().map(CsvRow::of).collect::<Vec<_>>(), out)
    }
}

impl AllocationSiteRow {
    /// The program's function with its position, or else the innermost function.
    fn place(&self) -> String {
        let innermost = || self.frames.first().map_or_else(|| "(no names)".to_owned(), |frame| frame.title());
        let at = self.position.as_ref().map_or_else(String::new, |at| format!(" {at}"));
        self.site.as_ref().map_or_else(innermost, |site| format!("{site}{at}"))
    }
}

#[derive(Default, Serialize)]
struct CsvRow {
    inuse_bytes: u64,
    inuse_objects: u64,
    alloc_bytes: u64,
    alloc_objects: u64,
    site: Option<String>,
    position: Option<String>,
}

impl CsvRow {
    fn of(row: &AllocationSiteRow) -> CsvRow {
        CsvRow {
            inuse_bytes: row.scaled.inuse_bytes,
            inuse_objects: row.scaled.inuse_objects,
            alloc_bytes: row.scaled.alloc_bytes,
            alloc_objects: row.scaled.alloc_objects,
            site: row.site.clone(),
            position: row.position.clone(),
        }
    }
}

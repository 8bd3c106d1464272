use std::io::{self, Write};

use crate::commands::regions::report::RegionsReport;
use crate::render::document::{Cut, Document, Rows, TableBlock, size};
use crate::render::resident::rss;
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{Name, RegionRow, Resident};
use crate::units::{count, human};

/// Default number of regions shown. It covers all but the largest programs, because the user asked for the whole map.
const DEFAULT_ROWS: usize = 1000;

/// Index of the column of written bytes, if there is one.
const WRITTEN: usize = 6;

fn region_table(rows: &[RegionRow]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .text("Kind")
        .text("Start")
        .text("End")
        .optional()
        .number("Size")
        .text("Perms")
        .number("In core")
        .optional_rank(2);
    let scanned = rows.iter().any(|r| r.written.is_some());
    if scanned {
        table = table.number("Written");
    }
    let in_ram = rows.iter().any(|r| r.rss.is_some());
    if in_ram {
        table = table.number("RSS");
    }
    table = table.text("Confidence").optional_rank(4).flexible("Detail").least(20).flexible("File").optional_rank(3);
    let contents = rows.iter().any(|r| r.content.is_some());
    if contents {
        table = table.flexible("Content").cut(Cut::End).least(24);
    }
    let row = move |r: &RegionRow| {
        // The detail is omitted if it is only the file name.
        let detail = if r.file.as_ref() == Some(&r.detail) { String::new() } else { r.detail.shown() };
        let mut cells = vec![
            r.kind.to_string(),
            r.start.to_string(),
            r.end.to_string(),
            human(r.size),
            r.perms.clone(),
            human(r.in_core),
        ];
        if scanned {
            cells.push(size(r.written));
        }
        if in_ram {
            cells.push(rss(&Resident { rss: r.rss, rss_estimated: r.rss_estimated, ..Resident::default() }));
        }
        cells.extend([r.confidence.to_string(), detail, r.file.as_ref().map(Name::shown).unwrap_or_default()]);
        if contents {
            cells.push(r.content.clone().unwrap_or_default());
        }
        cells
    };
    table = table.brief(DEFAULT_ROWS, "region").bytes(|i| rows.get(i).map_or(0, |r| r.size));
    table.rows = Rows::Made(rows.len(), Box::new(move |i| rows.get(i).map(row).unwrap_or_default()));
    table
}

impl Listing for RegionsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.regions]
    }
}

impl Render for RegionsReport {
    fn document(&self) -> Document<'_> {
        let mut table = region_table(&self.regions);
        let sum = |f: fn(&RegionRow) -> u64| self.regions.iter().map(f).fold(0, u64::saturating_add);
        let mut footer = vec![String::new(); table.columns.len()];
        footer[0] = "[TOTAL]".into();
        footer[1] = count(self.regions.len() as u64, "region");
        footer[3] = human(sum(|r| r.size));
        footer[5] = human(sum(|r| r.in_core));
        let scanned = self.regions.iter().filter_map(|r| r.written).reduce(u64::saturating_add);
        if let (Some(written), Some(cell)) = (scanned, footer.get_mut(WRITTEN)) {
            *cell = human(written);
        }
        let rss_at = if scanned.is_some() { WRITTEN + 1 } else { WRITTEN };
        if self.regions.iter().any(|r| r.rss.is_some())
            && let Some(cell) = footer.get_mut(rss_at)
        {
            *cell = human(sum(|r| r.rss.unwrap_or(0)));
        }
        table.footer = Some(footer);
        let mut doc = Document::default();
        doc.table(table);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.regions, out)
    }
}

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::collections::report::{CollectionSums, CollectionsReport};
use crate::commands::dotnet::{add_unread, none_found};
use crate::render::brief::RANKED_ROWS;
use crate::render::document::{Document, TableBlock, percent};
use crate::render::lines::not_read_line;
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact, human, round};

/// Maximum number of holders, and of single collections, in a table.
const SHOWN: usize = 10;

impl Listing for CollectionsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.types, &mut self.holders, &mut self.largest]
    }
}

impl Render for CollectionsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.types.is_empty() {
            doc.line(none_found("collections", &self.unread));
            return doc;
        }
        let total = self.total;
        doc.line(format!(
            "{} of {} in the arrays of {} are empty slots",
            round(total.empty_bytes),
            round(total.bytes),
            count(total.count, "live collection")
        ));
        doc.line("");
        doc.table(self.type_table());
        if !self.holders.is_empty() {
            doc.line("");
            doc.table(self.holder_table());
        }
        if !self.largest.is_empty() {
            doc.line("");
            doc.table(self.object_table());
        }
        if self.unreadable > 0 {
            doc.line(format!("{} could not be read and are not counted", count(self.unreadable, "collection")));
        }
        not_read_line(&mut doc, &self.not_read);
        add_unread(&mut doc, "collections", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            r#type: &'a str,
            method_table: Addr,
            count: u64,
            empty: u64,
            elements: u64,
            slots: u64,
            bytes: u64,
            empty_bytes: u64,
            fill: Option<f64>,
        }
        let rows = self.types.iter().map(|row| {
            let CollectionSums { count, empty, elements, slots, bytes, empty_bytes } = row.sums;
            let (r#type, method_table, fill) = (&*row.name, row.method_table, row.fill);
            Row { r#type, method_table, count, empty, elements, slots, bytes, empty_bytes, fill }
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

impl CollectionsReport {
    fn type_table(&self) -> TableBlock<'_> {
        let mut table = TableBlock::default()
            .number("Collections")
            .number("Empty")
            .optional_rank(2)
            .number("Elements")
            .optional_rank(3)
            .number("Slots")
            .optional_rank(3)
            .number("Fill %")
            .number("Array bytes")
            .number("Empty bytes")
            .type_name("Type")
            .least(24)
            .brief(RANKED_ROWS, "type");
        for row in &self.types {
            let sums = row.sums;
            table.rows.push(vec![
                exact(sums.count),
                exact(sums.empty),
                exact(sums.elements),
                exact(sums.slots),
                row.fill.map_or_else(|| "-".to_owned(), |fill| format!("{:.1}", fill * 100.0)),
                exact(sums.bytes),
                exact(sums.empty_bytes),
                row.name.shown(),
            ]);
        }
        table
    }

    fn holder_table(&self) -> TableBlock<'_> {
        let mut table = TableBlock::default()
            .number("Empty bytes")
            .number("% of all")
            .number("Collections")
            .flexible("Held by")
            .least(24)
            .type_name("Type")
            .least(24)
            .brief(SHOWN, "holder");
        for row in &self.holders {
            table.rows.push(vec![
                exact(row.sums.empty_bytes),
                percent(row.sums.empty_bytes, self.total.empty_bytes),
                exact(row.sums.count),
                row.holder.clone(),
                row.name.shown(),
            ]);
        }
        table
    }

    fn object_table(&self) -> TableBlock<'_> {
        let mut table = TableBlock::default()
            .text("Object")
            .number("Elements")
            .number("Slots")
            .number("Empty")
            .type_name("Type")
            .least(24)
            .flexible("Held by")
            .least(24)
            .brief(SHOWN, "collection");
        for row in &self.largest {
            table.rows.push(vec![
                row.object.to_string(),
                exact(row.elements),
                exact(row.slots),
                human(row.empty_bytes),
                row.name.shown(),
                row.holder.clone().unwrap_or_default(),
            ]);
        }
        table
    }
}

use std::io::{self, Write};

use crate::commands::objects::report::ObjectsReport;
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, Rows, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::ListedObject;
use crate::units::{count, exact};

impl Listing for ObjectsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.objects]
    }
}

impl Render for ObjectsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.objects.is_empty() {
            doc.line("no objects match");
            return doc;
        }
        let mut table = TableBlock::default().text("Object").number("Size").text("Generation").type_name("Type");
        table = table.brief(LISTED_ROWS, "object").bytes(|i| self.objects.get(i).map_or(0, |o| o.size));
        let row =
            |o: &ListedObject| vec![o.address.to_string(), exact(o.size), o.generation.to_owned(), o.name.shown()];
        let row = move |i| self.objects.get(i).map(row).unwrap_or_default();
        table.rows = Rows::Made(self.objects.len(), Box::new(row));
        doc.table(table);
        doc.line(format!("{}, {} bytes", count(self.objects.len() as u64, "object"), exact(self.size)));
        if self.more > 0 {
            doc.line(format!("and {} more objects", exact(self.more)));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.objects, out)
    }
}

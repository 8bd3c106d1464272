use std::io::{self, Write};

use crate::commands::objects::report::ObjectsReport;
use crate::render::document::{Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::units::exact;

impl Render for ObjectsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.objects.is_empty() {
            doc.line("no objects of such a type");
            return doc;
        }
        let mut table = TableBlock::default().text("Object").number("Size").text("Generation").flexible("Type");
        for o in &self.objects {
            table.rows.push(vec![o.address.to_string(), exact(o.size), o.generation.to_owned(), o.name.shown()]);
        }
        doc.table(table);
        doc.line(format!("{} objects, {} bytes", exact(self.objects.len() as u64), exact(self.size)));
        if self.more > 0 {
            doc.line(format!("and {} more", exact(self.more)));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.objects, out)
    }
}

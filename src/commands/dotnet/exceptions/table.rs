use std::io::{self, Write};

use crate::commands::dotnet::exceptions::report::ExceptionsReport;
use crate::commands::dotnet::{add_unread, empty_line};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact};

/// Lists the objects of all runtimes by type.
const ELSEWHERE: &str = "; `coremap heapstat --type 'Error|Exception'` counts objects by type";

impl Listing for ExceptionsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.exceptions]
    }
}

impl Render for ExceptionsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.exceptions.is_empty() {
            doc.line(empty_line("exceptions", &self.unread, ELSEWHERE));
            return doc;
        }
        let mut table = TableBlock::default()
            .text("Object")
            .text("HResult")
            .text("Thrown")
            .optional()
            .type_name("Type")
            .flexible("Message")
            .cut(Cut::End)
            .brief(LISTED_ROWS, "exception");
        for e in &self.exceptions {
            table.rows.push(vec![
                e.object.to_string(),
                e.hresult.clone().unwrap_or_else(|| "-".into()),
                e.thrown.map_or("-", |t| if t { "yes" } else { "no" }).to_owned(),
                e.name.shown(),
                e.message.clone().unwrap_or_default(),
            ]);
        }
        doc.table(table);
        doc.line(count(self.exceptions.len() as u64, "exception"));
        if self.more > 0 {
            doc.line(format!("and {} more", exact(self.more)));
        }
        add_unread(&mut doc, "exceptions", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.exceptions, out)
    }
}

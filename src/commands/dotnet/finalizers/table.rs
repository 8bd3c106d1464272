use std::io::{self, Write};

use crate::commands::dotnet::finalizers::report::FinalizersReport;
use crate::commands::dotnet::{add_unread, empty_line};
use crate::render::brief::RANKED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact};

impl Listing for FinalizersReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.objects, &mut self.types]
    }
}

impl Render for FinalizersReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if !self.types.is_empty() {
            let mut table = TableBlock::default().number("Count").text("State").type_name("Type");
            table = table.brief(RANKED_ROWS, "type");
            for t in &self.types {
                table.rows.push(vec![exact(t.count), t.state.to_string(), t.name.shown()]);
            }
            doc.table(table);
        }
        if self.objects.is_empty() && !self.unread.is_empty() {
            doc.line(empty_line("finalizers", &self.unread, ""));
            return doc;
        }
        doc.line(format!(
            "{} registered, {} ready for finalization",
            count(self.registered, "object"),
            exact(self.ready)
        ));
        add_unread(&mut doc, "finalizers", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.objects, out)
    }
}

use std::io::{self, Write};

use crate::commands::symbolicate::report::SymbolicateReport;
use crate::render::{Document, Render, TableBlock, csv_rows};
use crate::units::exact;

impl Render for SymbolicateReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let mut table = TableBlock::default().number("Count").text("Address").text("Kind").flexible("Symbol");
        for frame in &self.frames {
            table.rows.push(vec![
                exact(frame.count),
                frame.address.to_string(),
                frame.kind.to_string(),
                frame.symbol.clone().or_else(|| frame.note.map(str::to_owned)).unwrap_or_default(),
            ]);
        }
        doc.table(table);
        doc.line(format!("{} of {} addresses named ({} text)", exact(self.named), exact(self.addresses), self.format));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.frames, out)
    }
}

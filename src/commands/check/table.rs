use std::io::{self, Write};

use crate::commands::check::report::CheckReport;
use crate::render::document::{Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::units::exact;

impl Render for CheckReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let mut table = TableBlock::default().text("Invariant").text("Holds").flexible("Figures");
        for i in &self.invariants {
            table.rows.push(vec![i.name.to_owned(), if i.ok { "yes" } else { "NO" }.to_owned(), i.detail.clone()]);
        }
        doc.table(table);
        if self.conflicts.is_empty() {
            doc.line("no two exact claims contradict each other");
        }
        for c in &self.conflicts {
            doc.line(format!(
                "! {} bytes at {}: {} wins over {} ({})",
                exact(c.size),
                c.start,
                c.winner,
                c.loser,
                c.detail
            ));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.invariants, out)
    }
}

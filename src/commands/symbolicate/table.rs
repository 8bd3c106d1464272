use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::symbolicate::report::{SymbolicateReport, TextFrameRow};
use crate::render::{Document, Render, TableBlock, csv_rows};
use crate::report::{CodeKind, InlinedRow};
use crate::units::exact;

#[derive(Default, Serialize)]
struct CsvRow<'a> {
    address: Addr,
    dso: Option<&'a str>,
    resolved: Option<Addr>,
    symbol: Option<&'a str>,
    kind: CodeKind,
    module: Option<&'a str>,
    count: u64,
    note: Option<&'static str>,
    inlined: String,
}

impl<'a> CsvRow<'a> {
    fn of(row: &'a TextFrameRow) -> CsvRow<'a> {
        CsvRow {
            address: row.address,
            dso: row.dso.as_deref(),
            resolved: row.resolved,
            symbol: row.symbol.as_deref(),
            kind: row.kind,
            module: row.module.as_deref(),
            count: row.count,
            note: row.note,
            inlined: inlined(row).trim_end_matches(" <- ").to_owned(),
        }
    }
}

/// The chain of inlined methods, each before the method it was inlined into.
fn inlined(row: &TextFrameRow) -> String {
    row.inlined.iter().map(InlinedRow::before_caller).collect()
}

impl Render for SymbolicateReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let mut table = TableBlock::default().number("Count").text("Address").text("Kind").flexible("Symbol");
        for frame in &self.frames {
            table.rows.push(vec![
                exact(frame.count),
                frame.address.to_string(),
                frame.kind.to_string(),
                frame
                    .symbol
                    .as_ref()
                    .map(|symbol| inlined(frame) + symbol)
                    .or_else(|| frame.note.map(str::to_owned))
                    .unwrap_or_default(),
            ]);
        }
        doc.table(table);
        doc.line(format!("{} of {} addresses named ({} text)", exact(self.named), exact(self.addresses), self.format));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.frames.iter().map(CsvRow::of).collect::<Vec<_>>(), out)
    }
}

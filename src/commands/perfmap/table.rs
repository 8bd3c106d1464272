use std::io::{self, Write};

use crate::bytes::printable;
use crate::commands::perfmap::report::{PerfMapReport, PerfMapRow};
use crate::render::{Document, List, Listing, Render, TableBlock, csv_rows};
use crate::report::CodePart;

/// Formats a line of /tmp/perf-PID.map: start and size in hexadecimal, then the name (perf's
/// tools/perf/Documentation/jit-interface.txt).
fn line(row: &PerfMapRow) -> String {
    let tier = row.tier.filter(|_| row.says_tier).map(|t| format!("[{t}]")).unwrap_or_default();
    let part = row.part.filter(|p| *p == CodePart::Cold).map(|p| format!("[{p}]")).unwrap_or_default();
    format!("{:x} {:x} {}{tier}{part}", row.start.get(), row.size, row.name)
}

/// Writes the map in the format of perf.
///
/// # Errors
/// Errors of writing.
pub fn perf_map(report: &PerfMapReport, out: &mut dyn Write) -> io::Result<()> {
    for row in &report.entries {
        writeln!(out, "{}", printable(&line(row)))?;
    }
    Ok(())
}

impl Listing for PerfMapReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.entries]
    }
}

impl Render for PerfMapReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let mut table = TableBlock::default().text("Start").number("Size").text("Tier").flexible("Name");
        for row in &self.entries {
            table.rows.push(vec![
                row.start.to_string(),
                row.size.to_string(),
                row.tier.or(row.part.map(CodePart::name)).unwrap_or("").to_owned(),
                row.name.clone(),
            ]);
        }
        doc.table(table);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.entries, out)
    }
}

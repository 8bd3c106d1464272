//! The table of `report`.

use std::io::{self, Write};

use crate::commands::report::answer::ReportReport;
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::units::{count, human};

impl Render for ReportReport {
    fn wants_headline(&self) -> bool {
        false
    }

    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(format!("{}: {}; open it in a browser (no network needed)", self.file, human(self.size)));
        for row in &self.left_out {
            let bytes = row.bytes.map_or(String::new(), |bytes| format!(" of {}", human(bytes)));
            doc.line(format!(
                "omitted, but summed in the page: {}{bytes}: {} of {}",
                count(row.rows, "row"),
                row.list,
                row.part
            ));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.parts, out)
    }
}

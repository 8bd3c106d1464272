//! The table of `dump`.

use std::io::{self, Write};
use std::slice;

use crate::commands::dump::report::DumpReport;
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::units::{count, exact, human};

impl Render for DumpReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let on_disk = match self.on_disk {
            Some(bytes) if bytes < self.size => format!(", {} on disk", human(bytes)),
            _ => String::new(),
        };
        let packed =
            self.packed.map(|form| format!(", .{form}-compressed from {}", human(self.unpacked))).unwrap_or_default();
        doc.line(format!(
            "{}: {} ({} bytes{on_disk}{packed}); contains {} of memory in {}; a core of the kernel would contain {}",
            self.file,
            human(self.size),
            exact(self.size),
            human(self.kept),
            count(self.segments as u64, "segment"),
            human(self.in_core),
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(slice::from_ref(self), out)
    }
}

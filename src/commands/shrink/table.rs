//! What was written of a core, as a document.

use std::io::{self, Write};
use std::slice;

use crate::commands::shrink::report::ShrinkReport;
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::units::{exact, human};

impl Render for ShrinkReport {
    fn wants_headline(&self) -> bool {
        false
    }

    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(format!(
            "{}: {} ({} bytes); {} of {} of memory kept, in {} segments",
            self.file,
            human(self.size),
            exact(self.size),
            human(self.kept),
            human(self.in_core),
            exact(self.segments as u64)
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(slice::from_ref(self), out)
    }
}

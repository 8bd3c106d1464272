//! What was written of a core, as a document.

use std::io::{self, Write};
use std::slice;

use crate::commands::shrink::report::ShrinkReport;
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::units::{count, exact, human};

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
        doc.line(format!(
            "The memory kept is as it was, with {} of readable text in UTF-8 and {} in UTF-16: smaller is not safer. \
             `coremap scan-secrets {}` tells what a person would be sorry about.",
            count(self.text_utf8, "piece"),
            exact(self.text_utf16),
            self.file
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(slice::from_ref(self), out)
    }
}

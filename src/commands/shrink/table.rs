//! What was written of a core, as a document.

use std::io::{self, Write};
use std::slice;

use serde::Serialize;

use crate::commands::shrink::report::ShrinkReport;
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::scrub::Encoding;
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
        let Some(counts) = &self.scrubbed else {
            doc.line(format!(
                "The memory kept is as it was, with {} of readable text in UTF-8 and {} in UTF-16: smaller is not safer. \
                 `coremap scan-secrets {}` tells what a person would be sorry about.",
                count(self.text_utf8, "piece"),
                exact(self.text_utf16),
                self.file
            ));
            return doc;
        };
        let rows = [
            (counts.overwritten, "overwritten"),
            (counts.strings, "characters of strings, overwritten so that equal ones stay equal"),
            (counts.names, "of the program's own names, overwritten by others of the same form"),
            (counts.pointers, "kept: words that lead into mapped memory"),
            (counts.structures, "kept: structures that answers read"),
            (counts.zero, "zero, as before"),
        ];
        for (bytes, what) in rows.into_iter().filter(|(bytes, what)| *bytes > 0 || !what.starts_with("of the")) {
            doc.line(format!("{:>12}  {what}", human(bytes)));
        }
        if let Some(left) = &self.left_texts {
            for row in left {
                let kind = row.kind.map_or("", |kind| kind.name());
                let wide = if row.encoding == Encoding::Utf16 { "utf-16 " } else { "" };
                doc.line(format!("{:>8}  {}  {kind:<18}  {wide}{}", exact(row.count), row.address, row.text));
            }
            doc.line(format!("{} of text left, each with its first place.", count(left.len() as u64, "piece")));
        }
        let names = if counts.names > 0 { "" } else { " names" };
        doc.line(format!("Sizes, counts, types,{names} and who points at whom are as they were: docs/sharing.md."));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { file, size, kept, in_core, segments, .. } = self;
        let row = Row { file, size: *size, kept: *kept, in_core: *in_core, segments: *segments };
        csv_rows(slice::from_ref(&row), out)
    }
}

/// The row of CSV.
#[derive(Default, Serialize)]
struct Row<'a> {
    file: &'a str,
    size: u64,
    kept: u64,
    in_core: u64,
    segments: usize,
}

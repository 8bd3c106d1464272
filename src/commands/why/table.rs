//! The texts of `why`: the answer, its evidence, then the details as the other commands show them.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::gcroot::path_lines;
use crate::commands::why::report::{WhyReport, WhyTypesReport};
use crate::map::Confidence;
use crate::render::document::{Block, Document};
use crate::render::lines::not_read_line;
use crate::render::{Render, csv_rows};
use crate::report::Kept;

fn is_blank(block: &Block<'_>) -> bool {
    matches!(block, Block::Line(text, _) if text.is_empty())
}

/// Maximum number of paths in the text.
const PATHS: usize = 4;

fn head(doc: &mut Document<'_>, text: &str, evidence: &str, confidence: Option<Confidence>) {
    doc.line(text);
    let confidence = confidence.map(|confidence| format!(" ({confidence})")).unwrap_or_default();
    doc.line(format!("Evidence{confidence}: {evidence}"));
}

impl Render for WhyReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        head(&mut doc, &self.text, &self.evidence, self.confidence);
        for path in self.paths.iter().take(PATHS) {
            doc.line("");
            path_lines(&mut doc, path);
        }
        if let Some(object) = self.object.filter(|_| self.paths.len() > PATHS || self.more_paths) {
            doc.line("");
            doc.line(format!("coremap gcroot --all {object} shows more paths"));
        }
        // If it is reached, it is retained, and what was not read does not matter.
        if self.kept != Kept::Reached {
            not_read_line(&mut doc, &self.not_read);
        }
        doc.line("");
        self.whatis.add_lines(&mut doc);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            address: Addr,
            kept: Kept,
            confidence: Option<Confidence>,
            object: Option<Addr>,
            r#type: Option<&'a str>,
            size: Option<u64>,
            retained: Option<u64>,
            dominator: Option<Addr>,
            root_kind: Option<&'a str>,
            root_address: Option<Addr>,
            text: &'a str,
        }
        let (kept, path) = (self.retained.as_ref(), self.paths.first());
        let row = Row {
            address: self.address,
            kept: self.kept,
            confidence: self.confidence,
            object: self.object,
            r#type: kept.and_then(|row| row.name.as_deref()),
            size: kept.and_then(|row| row.size),
            retained: kept.and_then(|row| row.retained),
            dominator: kept.and_then(|row| row.dominator),
            root_kind: path.map(|path| path.root_kind.as_str()),
            root_address: path.map(|path| path.root_address),
            text: &self.text,
        };
        csv_rows(&[row], out)
    }
}

impl Render for WhyTypesReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        head(&mut doc, &self.text, &self.evidence, self.confidence);
        if !self.roots.groups.is_empty() {
            doc.line("");
            // The sentences above contain the first line.
            doc.blocks.extend(self.roots.document().blocks.into_iter().skip(1).skip_while(is_blank));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        self.roots.csv(out)
    }
}

use std::io::{self, Write};

use crate::commands::triage::report::TriageReport;
use crate::render::document::Document;
use crate::render::lines::triaged;
use crate::render::{Render, csv_rows};
use crate::units::round;

impl Render for TriageReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(format!(
            "{} written of {} in the core ({} mapped); {:.1} % of what was written is named below.",
            round(self.written),
            round(self.in_core),
            round(self.size),
            self.named.share * 100.0
        ));
        for finding in &self.findings {
            triaged(&mut doc, finding);
        }
        for left in &self.left_out {
            doc.line(format!("· left out for want of time (--budget): {left}"));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.findings, out)
    }
}

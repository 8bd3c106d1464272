use std::io::{self, Write};

use crate::commands::triage::report::TriageReport;
use crate::render::document::Document;
use crate::render::lines::triaged;
use crate::render::{Render, csv_rows};
use crate::report::{Finding, Severity};
use crate::units::round;

/// Share of all bytes below which a finding that only counts bytes gets no line of its own.
const SMALL: f64 = 0.001;

/// Whether a finding only counts bytes, and few of them.
fn is_small(finding: &Finding) -> bool {
    finding.severity == Severity::Info && finding.bytes.is_some() && finding.share.is_some_and(|share| share < SMALL)
}

impl Render for TriageReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(format!("{}. The findings below explain {}.", self.sums(), self.explained()));
        if self.second_views > 0 {
            doc.line(format!(
                "{} more are the same pages at another address (regions --kind DoubleMapped).",
                round(self.second_views)
            ));
        }
        let (small, shown): (Vec<&Finding>, Vec<&Finding>) = self.findings.iter().partition(|f| is_small(f));
        for finding in shown {
            triaged(&mut doc, finding);
        }
        if !small.is_empty() {
            let bytes = small.iter().filter_map(|f| f.bytes).fold(0, u64::saturating_add);
            let names: Vec<&str> = small.iter().map(|f| f.id).collect();
            doc.line(String::new());
            doc.line(format!(
                "· {} in findings below {:.1} % each: {} (details: --json)",
                round(bytes),
                SMALL * 100.0,
                names.join(", ")
            ));
        }
        for left in &self.left_out {
            doc.line(format!("· skipped to stay within --budget: {left}"));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.findings, out)
    }
}

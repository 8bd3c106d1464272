use std::io::{self, Write};

use crate::commands::triage::report::TriageReport;
use crate::render::document::{Document, TableBlock};
use crate::render::lines::{Place, triaged};
use crate::render::{Render, csv_rows};
use crate::report::{Finding, Severity};
use crate::units::{exact, human, noun, round};

/// Minimum share of all bytes for a row of a kind of memory.
const SMALL_KIND: f64 = 0.005;

/// Minimum share of all bytes for a note, and number of findings that are always shown.
const SMALL: f64 = 0.05;
const FIRST: usize = 3;

/// Whether a finding is a note on few bytes.
fn is_small(finding: &Finding) -> bool {
    finding.severity == Severity::Info && finding.bytes.is_some() && finding.share.is_some_and(|share| share < SMALL)
}

impl TriageReport {
    /// Returns all bytes by kind.
    fn table(&self) -> TableBlock<'_> {
        let measure = match self.resident {
            Some(_) if self.swapped > Some(0) => "Resident or swapped",
            Some(_) => "Resident",
            None => "Written",
        };
        let mut table = TableBlock::default().text("Memory").number(measure).number("%").bar();
        let mut add = |kind: &str, bytes: u64, share: f64| {
            table.rows.push(vec![kind.to_owned(), human(bytes), format!("{:.1}", share * 100.0)]);
        };
        let is_shown = |share: f64| self.all || share >= SMALL_KIND;
        self.memory.iter().filter(|row| is_shown(row.share)).for_each(|row| add(&row.kind, row.bytes, row.share));
        let rest = self.memory.iter().filter(|row| !is_shown(row.share));
        let sum = rest.fold((0, 0_u64, 0.0), |(n, bytes, share), row| {
            (n + 1, bytes.saturating_add(row.bytes), share + row.share)
        });
        if sum.0 > 0 {
            add(&format!("{} more {}", exact(sum.0), noun(sum.0, "kind")), sum.1, sum.2);
        }
        table
    }

    /// Returns findings in the order of the table, each with its position. A note is below the earlier note to which it
    /// belongs.
    fn placed(&self) -> Vec<(&Finding, Place)> {
        let is_note = |f: &Finding| f.severity == Severity::Info;
        let parent = |i: usize, f: &Finding| {
            let id = f.within.filter(|_| is_note(f))?;
            self.findings.get(..i)?.iter().position(|other| other.id == id && is_note(other))
        };
        let parents: Vec<Option<usize>> = self.findings.iter().enumerate().map(|(i, f)| parent(i, f)).collect();
        // A parent may itself belong to another finding, but the list has only one level.
        let top = |mut i: usize| {
            while let Some(above) = parents.get(i).copied().flatten() {
                i = above;
            }
            i
        };
        let place = |i: usize| if top(i) == i { Place::Own } else { Place::Nested };
        let mut placed: Vec<(usize, usize)> = (0..self.findings.len()).map(|i| (top(i), i)).collect();
        placed.sort_unstable();
        placed.into_iter().filter_map(|(_, i)| Some((self.findings.get(i)?, place(i)))).collect()
    }
}

impl Render for TriageReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(String::new());
        doc.line(self.sums());
        if self.second_views > 0 {
            doc.line(format!(
                "{} are mapped at a second address, and counted once (regions --kind DoubleMapped)",
                round(self.second_views)
            ));
        }
        if !self.memory.is_empty() {
            doc.line(String::new());
            doc.table(self.table());
            doc.line(self.explained());
        }
        let mut left_out = 0;
        for (i, (finding, place)) in self.placed().into_iter().enumerate() {
            match i < FIRST || self.all || !is_small(finding) {
                true => triaged(&mut doc, finding, place),
                false => left_out += 1,
            }
        }
        if left_out > 0 {
            doc.line(String::new());
            doc.line(format!(
                "{} more {} below {:.0} % (--all)",
                exact(left_out),
                noun(left_out, "note"),
                SMALL * 100.0
            ));
        }
        for left in &self.left_out {
            doc.line(format!("Skipped to stay within --budget: {left}"));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.findings, out)
    }
}

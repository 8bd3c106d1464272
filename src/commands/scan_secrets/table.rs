use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::scan_secrets::report::{SecretKindRow, SecretRegionRow, SecretsReport};
use crate::map::{Confidence, Kind};
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::report::{SecretKind, SecretSeverity};
use crate::units::{count, exact, human};

impl Render for SecretsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if !self.secrets.is_empty() {
            let mut table = TableBlock::default()
                .text("Severity")
                .text("Kind")
                .number("Count")
                .number("Distinct")
                .text("Confidence")
                .optional()
                .flexible("In")
                .cut(Cut::End)
                .least(16)
                .text("First at");
            for row in &self.secrets {
                table.rows.push(vec![
                    row.severity.to_string(),
                    row.kind.to_string(),
                    exact(row.count),
                    row.distinct.map_or_else(|| "many".to_owned(), exact),
                    row.confidence.to_string(),
                    regions(&row.regions),
                    first(row).map_or_else(|| "-".to_owned(), |at| at.to_string()),
                ]);
            }
            doc.table(table);
        }
        doc.line(format!("{} in {} scanned. Values are hidden.", count(self.total, "match"), human(self.scanned)));
        if let Some(at) = self.secrets.iter().find_map(first) {
            doc.line(format!("To see one: coremap whatis --bytes 64 {at} CORE"));
        }
        if self.secrets.iter().any(|row| matches!(row.kind, SecretKind::Environment | SecretKind::Argument)) {
            doc.line("To see arguments and environment: coremap info --show-data CORE");
        }
        if !self.start_known {
            doc.line("The process's arguments and environment are not in the core.");
        }
        doc.line(
            "Encoded, compressed, encrypted or split secrets are not found: an empty list is no proof that there are none.",
        );
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.secrets.iter().map(Row::of).collect::<Vec<_>>(), out)
    }
}

/// A kind in CSV, without its lists.
#[derive(Default, Serialize)]
struct Row<'a> {
    kind: SecretKind,
    severity: SecretSeverity,
    confidence: Confidence,
    count: u64,
    checked: u64,
    distinct: Option<u64>,
    regions: String,
    example: Option<Addr>,
    example_kind: Option<Kind>,
    command: &'a str,
}

impl<'a> Row<'a> {
    fn of(row: &'a SecretKindRow) -> Row<'a> {
        Row {
            kind: row.kind,
            severity: row.severity,
            confidence: row.confidence,
            count: row.count,
            checked: row.checked,
            distinct: row.distinct,
            regions: regions(&row.regions),
            example: first(row),
            example_kind: row.examples.iter().find(|e| e.address.is_some()).and_then(|e| e.kind),
            command: &row.command,
        }
    }
}

fn first(row: &SecretKindRow) -> Option<Addr> {
    row.examples.iter().find_map(|e| e.address)
}

/// Formats counts by kind of region: `Malloc 12, Stack 1`.
fn regions(rows: &[SecretRegionRow]) -> String {
    let name = |row: &SecretRegionRow| row.kind.map_or("notes", Kind::name);
    rows.iter().map(|row| format!("{} {}", name(row), exact(row.count))).collect::<Vec<_>>().join(", ")
}

use std::io::{self, Write};

use crate::commands::summary::report::{KindRow, SummaryReport};
use crate::commands::summary::rss_lines::rss_lines;
use crate::render::document::{Document, TableBlock, percent, size};
use crate::render::lines::findings;
use crate::render::resident::{ResidentColumns, legend, rss};
use crate::render::{Render, csv_rows};
use crate::units::{count, exact, human};

/// Maximum number of findings shown, most important first.
const MAX_FINDINGS: usize = 3;

impl Render for SummaryReport {
    fn document(&self) -> Document<'_> {
        let zero_fill = self.total.zero.is_some();
        let mut table = TableBlock::default()
            .text("Kind")
            .number("Count")
            .optional_rank(1)
            .number("Size")
            .number("Bytes")
            .optional_rank(3)
            .number("%")
            .number("In core")
            .number("%")
            .optional_rank(2);
        let resident = ResidentColumns::of(&self.total.resident);
        table = match &resident {
            // RSS, if known, is the column that most readers look for.
            Some(columns) => columns.add(table.optional_rank(4).number("RSS").number("%").optional_rank(2).bar()),
            None => table.bar(),
        };
        table = table.number("Largest").optional_rank(5);
        if zero_fill {
            table = table.number("Written").number("Zero").number("Zero %").optional_rank(4);
        }
        let t = &self.total;
        let reserved = self.kinds.iter().position(|k| k.kind.is_reserved());
        table.apart = reserved;
        for k in &self.kinds {
            let mut row = vec![
                k.kind.to_string(),
                exact(k.count),
                human(k.size),
                exact(k.size),
                percent(k.size, self.total.size),
                human(k.in_core),
                percent(k.in_core, self.total.in_core),
            ];
            if let Some(columns) = &resident {
                let figures = k.resident;
                row.extend([
                    rss(&figures),
                    k.resident.rss.map(|rss| percent(rss, t.resident.rss.unwrap_or(0))).unwrap_or_default(),
                ]);
                row.extend(columns.cells(&figures));
            }
            row.push(human(k.largest));
            if zero_fill {
                row.extend([size(k.written), size(k.zero), percent(k.zero.unwrap_or(0), k.in_core)]);
            }
            table.rows.push(row);
        }
        let mut footer = vec![
            "[TOTAL]".to_owned(),
            exact(t.count),
            human(t.size),
            exact(t.size),
            percent(t.size, t.size),
            human(t.in_core),
            percent(t.in_core, t.in_core),
        ];
        if let Some(columns) = &resident {
            let figures = t.resident.as_sum();
            footer.extend([rss(&figures), percent(t.resident.rss.unwrap_or(0), t.resident.rss.unwrap_or(0))]);
            footer.extend(columns.cells(&figures));
        }
        footer.push(String::new());
        if zero_fill {
            footer.extend([size(t.written), size(t.zero), percent(t.zero.unwrap_or(0), t.in_core)]);
        }
        table.footer = Some(footer);
        let mut doc = Document::default();
        doc.table(table);
        let reserved = reserved.and_then(|first| self.kinds.get(first..)).unwrap_or_default();
        if !reserved.is_empty() {
            let sum = |f: fn(&KindRow) -> u64| reserved.iter().map(f).fold(0, u64::saturating_add);
            let held = match sum(|k| k.in_core) {
                0 => "none of it in the core".to_owned(),
                held => format!("{} of it in the core", human(held)),
            };
            let names: Vec<&str> = reserved.iter().map(|k| k.kind.name()).collect();
            doc.line(format!("Reserved: {} of address space ({}); {held}", human(sum(|k| k.size)), names.join(", ")));
        }
        if let Some(m) = &self.malloc {
            let unknown = if m.unknown > 0 { format!(" · unknown {}", exact(m.unknown)) } else { String::new() };
            if (m.used, m.free) == (0, 0) && m.unknown > 0 {
                doc.line(format!("Malloc: usage of {} bytes is unknown; see `coremap malloc`", exact(m.unknown)));
            } else {
                doc.line(format!(
                    "Malloc: used {} · free {} · overhead {}{unknown} bytes",
                    exact(m.used),
                    exact(m.free),
                    exact(m.overhead)
                ));
            }
        }
        let ok = t.size == self.base.size && t.in_core == self.base.in_core;
        doc.line(format!(
            "check: kinds {} {} mapped {} bytes ({}); in core {} {} {} bytes",
            exact(t.size),
            if t.size == self.base.size { "=" } else { "≠" },
            exact(self.base.size),
            self.base.source,
            exact(t.in_core),
            if ok { "=" } else { "≠" },
            exact(self.base.in_core)
        ));
        if let Some(report) = &self.rss {
            rss_lines(&mut doc, report);
            let rows = self.kinds.iter().map(|k| k.resident);
            legend(rows, zero_fill).into_iter().for_each(|line| doc.line(line));
        }
        findings(&mut doc, self.findings.get(..MAX_FINDINGS).unwrap_or(&self.findings));
        match self.findings.len().saturating_sub(MAX_FINDINGS) {
            0 => {}
            more => {
                doc.line(format!("{}; `coremap triage` shows all, with evidence", count(more as u64, "more finding")))
            }
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.kinds, out)
    }
}

use std::io::{self, Write};

use crate::addr::Addr;
use crate::commands::stacks::report::{StackGroup, StackRow, StacksReport};
use crate::map::{Confidence, Kind};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Cut, TableBlock, exact_or_dash, size};
use crate::render::lines::findings;
use crate::render::resident::{ResidentColumns, legend, rss};
use crate::render::{Document, List, Listing, Render, csv_rows};
use crate::report::{Resident, StackState};
use crate::sums::SaturatingSum;
use crate::targets::threads::tid_text;
use crate::units::{count, exact, human};

/// Maximum number of groups shown. The others are summed.
const MAX_SHOWN: usize = 24;

/// Minimum width of the activity column, to which other columns give way.
/// Enough for a wait and its caller: `Monitor.Wait ← Lab.Parking.Park`.
const DOES: usize = 31;

impl Listing for StacksReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.stacks]
    }
}

impl Render for StacksReport {
    fn document(&self) -> Document<'_> {
        let zero_fill = self.total.zero.is_some();
        let mut table = TableBlock::default()
            .number("Tid")
            .text("Name")
            .text("Low")
            .optional_rank(3)
            .text("High")
            .optional_rank(4)
            .number("Reserved")
            .number("Guard")
            .optional_rank(2)
            .number("In use")
            .optional()
            .number("In core")
            .optional_rank(2);
        let resident = ResidentColumns::of(&self.total.resident);
        if let Some(columns) = &resident {
            table = columns.add(table.optional_rank(4).number("RSS"));
        }
        if zero_fill {
            table = table.number("Touched").number("Written").optional();
            table = table.number("Zero").optional_rank(2);
        }
        // The confidence is worth a column only if some of it is not exact.
        let sure = self.stacks.iter().all(|s| s.confidence == Some(Confidence::Exact));
        table = table.text("Confidence").optional_rank(if sure { 5 } else { 0 });
        let has_activity = self.stacks.iter().any(|s| s.does.is_some());
        if has_activity {
            table = table.flexible("Activity").least(DOES).cut(Cut::Middle);
        }
        table = table.brief(LISTED_ROWS, "stack").bytes(|i| self.stacks.get(i).and_then(|s| s.reserved).unwrap_or(0));
        for s in &self.stacks {
            let addr = |a: Option<Addr>| a.map_or_else(|| "-".to_owned(), |a| a.to_string());
            let mut row = vec![
                s.tid.or(s.used_by).map_or_else(|| "-".to_owned(), tid_text),
                name(s),
                addr(s.low),
                addr(s.high),
                size(s.reserved),
                size(s.guard),
                s.in_use.map_or_else(|| "SP elsewhere".to_owned(), human),
                human(s.in_core),
            ];
            if s.tid.or(s.used_by).is_none() {
                row[6] = "-".into();
            }
            if let Some(columns) = &resident {
                let figures = s.resident;
                row.push(rss(&figures));
                row.extend(columns.cells(&figures));
            }
            if zero_fill {
                let or_lost = |n| if s.lost { "lost".to_owned() } else { size(n) };
                row.extend([or_lost(s.touched), or_lost(s.written), or_lost(s.zero)]);
            }
            row.push(known(s));
            if has_activity {
                let unknown = if s.tid.is_some() { "-" } else { "" };
                row.push(s.does.clone().unwrap_or_else(|| unknown.to_owned()));
            }
            table.rows.push(row);
        }
        let t = &self.total;
        let mut footer = vec![
            "[TOTAL]".to_owned(),
            count(t.count, "stack"),
            String::new(),
            String::new(),
            human(t.reserved),
            human(t.guard),
            human(t.in_use),
            human(t.in_core),
        ];
        if let Some(columns) = &resident {
            let figures = t.resident;
            footer.push(rss(&figures));
            footer.extend(columns.cells(&figures));
        }
        if zero_fill {
            footer.extend([size(t.touched), size(t.written), size(t.zero)]);
        }
        footer.push(String::new());
        if has_activity {
            footer.push(String::new());
        }
        table.footer = Some(footer);
        let mut doc = Document::default();
        doc.table(table);
        let in_ram = t.resident.rss.map(|rss| format!("; RSS {}", exact(rss))).unwrap_or_default();
        doc.line(format!(
            "Bytes: reserved {}; in use (SP to top) {}; touched (lowest non-zero page to top) {}; written {}; zero {}{in_ram}",
            exact(t.reserved),
            exact(t.in_use),
            exact_or_dash(t.touched),
            exact_or_dash(t.written),
            exact_or_dash(t.zero)
        ));
        let rows = self.stacks.iter().map(|s| s.resident);
        legend(rows, zero_fill).into_iter().for_each(|line| doc.line(line));
        if has_activity {
            groups(&mut doc, &self.groups);
        }
        findings(&mut doc, &self.findings);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.stacks, out)
    }
}

/// Name of the thread, or the use of a stack that is not a thread's own.
fn name(s: &StackRow) -> String {
    let what = match s.state {
        StackState::Cached => "(ended)",
        StackState::Fiber => "(fiber)",
        StackState::Inherited => "(copied by fork)",
        StackState::Unknown if s.tid.is_none() => "(thread unknown)",
        StackState::Signal => "(signal stack)",
        StackState::Switched => "(switched to)",
        _ if s.crashed => "(crashed)",
        _ => "",
    };
    let name = s.name.as_deref().filter(|_| s.tid.is_some()).unwrap_or_default();
    [name, what].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The confidence, and the kind that the stack counts as, if not Stack.
fn known(s: &StackRow) -> String {
    let sure = s.confidence.map_or("unknown", Confidence::name);
    match s.kind.filter(|kind| s.low.is_some() && *kind != Kind::Stack) {
        Some(kind) => format!("{sure}, counts as {kind}"),
        None => sure.to_owned(),
    }
}

/// Shows threads by activity, largest groups first.
fn groups(doc: &mut Document<'_>, groups: &[StackGroup]) {
    let zero_fill = groups.iter().any(|g| g.written.is_some());
    let mut table = TableBlock::default().number("Threads").number("Reserved").number("In use").optional();
    let in_ram = groups.iter().any(|g| g.rss.is_some());
    if in_ram {
        table = table.number("RSS");
    }
    if zero_fill {
        table = table.number("Touched").number("Written").optional();
    }
    table = table.flexible("Activity").least(DOES).cut(Cut::Middle);
    for g in groups.iter().take(MAX_SHOWN) {
        let mut row = vec![exact(g.count), human(g.reserved), human(g.in_use)];
        if in_ram {
            row.push(rss(&Resident { rss: g.rss, rss_estimated: g.rss_estimated, ..Resident::default() }));
        }
        if zero_fill {
            row.extend([size(g.touched), size(g.written)]);
        }
        row.push(g.does.clone().unwrap_or_else(|| "-".to_owned()));
        table.rows.push(row);
    }
    doc.line("");
    doc.table(table);
    let rest = groups.get(MAX_SHOWN..).unwrap_or_default();
    if !rest.is_empty() {
        let threads = rest.iter().map(|g| g.count).saturating_sum();
        let (threads, things) = (count(threads, "thread"), count(rest.len() as u64, "other activity"));
        doc.line(format!("and {threads} with {things}"));
    }
    doc.line("");
}

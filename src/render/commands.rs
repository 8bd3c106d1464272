//! Each command's report as a document and as CSV rows.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::map::Kind;
use crate::render::document::{Cut, Document, Rows, TableBlock, percent, size};
use crate::render::{Render, csv_rows};
use crate::report::{
    CheckReport, CoreRow, Finding, ImageFormat, InfoReport, Name, ProcessRow, RegionRow, RegionsReport, SearchReport,
    Severity, SummaryReport, WhatisReport,
};
use crate::units::{exact, human};

/// The line every table begins with: what core this is.
pub(super) fn headline(core: &CoreRow) -> Document<'_> {
    let mut parts = vec![human(core.size)];
    if let Some(packed) = core.packed {
        parts[0].push_str(&format!(" unpacked from .{packed}"));
    }
    parts.push(core.producer.to_string());
    parts.push(core.arch.to_string());
    for r in &core.runtimes {
        let gc = r.gc.map_or_else(String::new, |gc| format!(" ({gc} GC)"));
        parts.push(format!("{} {}{gc}", r.name, r.version.as_deref().unwrap_or("?")));
    }
    if let Some(pid) = core.pid {
        parts.push(format!("pid {pid}"));
    }
    parts.push(format!("{} threads", core.threads));
    let mut doc = Document::default();
    if let Some(t) = core.truncation {
        doc.line(format!(
            "! TRUNCATED: the file has {} of {} bytes; {} of memory is missing",
            exact(t.actual),
            exact(t.expected),
            human(t.missing)
        ));
    }
    doc.line(format!("{}  {}", core.path, parts.join(" · ")));
    doc
}

pub(super) fn findings(doc: &mut Document<'_>, list: &[Finding]) {
    for f in list {
        let mark = if f.severity == Severity::Warning { "!" } else { "·" };
        doc.line(format!("{mark} {}", f.text));
    }
}

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
            .optional_rank(2)
            .number("Largest")
            .optional_rank(5);
        if zero_fill {
            table = table.number("Written").number("Zero").number("Zero %").optional_rank(4);
        }
        for k in &self.kinds {
            let mut row = vec![
                k.kind.to_string(),
                exact(k.count),
                human(k.size),
                exact(k.size),
                percent(k.size, self.total.size),
                human(k.in_core),
                percent(k.in_core, self.total.in_core),
                human(k.largest),
            ];
            if zero_fill {
                row.extend([size(k.written), size(k.zero), percent(k.zero.unwrap_or(0), k.in_core)]);
            }
            table.rows.push(row);
        }
        let t = &self.total;
        let mut footer = vec![
            "[TOTAL]".to_owned(),
            exact(t.count),
            human(t.size),
            exact(t.size),
            percent(t.size, t.size),
            human(t.in_core),
            percent(t.in_core, t.in_core),
            String::new(),
        ];
        if zero_fill {
            footer.extend([size(t.written), size(t.zero), percent(t.zero.unwrap_or(0), t.in_core)]);
        }
        table.footer = Some(footer);
        let mut doc = Document::default();
        doc.table(table);
        if let Some(m) = &self.malloc {
            let unknown = if m.unknown > 0 { format!(" · not known {}", exact(m.unknown)) } else { String::new() };
            if (m.used, m.free) == (0, 0) && m.unknown > 0 {
                doc.line(format!("Malloc: not known what is used of {} bytes: see malloc", exact(m.unknown)));
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
            "check: kinds {} {} base {} bytes (PT_LOAD and NT_FILE); in core {} {} {} bytes",
            exact(t.size),
            if t.size == self.base.size { "=" } else { "≠" },
            exact(self.base.size),
            exact(t.in_core),
            if ok { "=" } else { "≠" },
            exact(self.base.in_core)
        ));
        findings(&mut doc, &self.findings);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.kinds, out)
    }
}

fn region_table(rows: &[RegionRow]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .text("Kind")
        .text("Start")
        .text("End")
        .optional()
        .number("Size")
        .text("Perms")
        .number("In core")
        .optional_rank(2)
        .text("Known")
        .optional_rank(4)
        .flexible("Detail")
        .least(20)
        .flexible("File")
        .optional_rank(3);
    let row = |r: &RegionRow| {
        // Where the detail is the file itself, once is enough.
        let detail = if r.file.as_ref() == Some(&r.detail) { String::new() } else { r.detail.shown() };
        vec![
            r.kind.to_string(),
            r.start.to_string(),
            r.end.to_string(),
            human(r.size),
            r.perms.clone(),
            human(r.in_core),
            r.confidence.to_string(),
            detail,
            r.file.as_ref().map(Name::shown).unwrap_or_default(),
        ]
    };
    table.rows = Rows::Made(rows.len(), Box::new(move |i| rows.get(i).map(row).unwrap_or_default()));
    table
}

impl Render for RegionsReport {
    fn document(&self) -> Document<'_> {
        let mut table = region_table(&self.regions);
        let sum = |f: fn(&RegionRow) -> u64| self.regions.iter().map(f).fold(0, u64::saturating_add);
        let mut footer = vec![String::new(); table.columns.len()];
        footer[0] = "[TOTAL]".into();
        footer[1] = format!("{} regions", exact(self.regions.len() as u64));
        footer[3] = human(sum(|r| r.size));
        footer[5] = human(sum(|r| r.in_core));
        table.footer = Some(footer);
        let mut doc = Document::default();
        doc.table(table);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.regions, out)
    }
}

impl Render for SearchReport {
    fn document(&self) -> Document<'_> {
        let with_context = self.hits.iter().any(|h| h.context.is_some());
        let mut table = TableBlock::default().text("Address").text("Enc");
        if with_context {
            table = table.optional();
        }
        table = table.text("Kind").flexible("Where").cut(Cut::Middle);
        if with_context {
            table = table.least(20).flexible("Context").least(30).cut(Cut::Ends);
        }
        let pattern = self.pattern.to_lowercase();
        let before = |context: &str| {
            let text = context.to_lowercase();
            text.get(..text.find(&pattern)?).map(UnicodeWidthStr::width)
        };
        let widest = self.hits.iter().filter_map(|h| before(h.context.as_deref()?)).max().unwrap_or(0);
        for h in &self.hits {
            let mut row = vec![
                h.address.to_string(),
                h.encoding.to_string(),
                h.kind.map_or("?", Kind::name).to_owned(),
                h.detail.clone(),
            ];
            if with_context {
                let context = h.context.as_deref().unwrap_or_default();
                // Where memory begins just before the hit, less stands before it.
                let fill = before(context).map_or(0, |n| widest - n);
                row.push(" ".repeat(fill) + context);
            }
            table.rows.push(row);
        }
        let mut doc = Document::default();
        if !self.hits.is_empty() {
            doc.table(table);
        }
        let shown = self.hits.len() as u64;
        doc.line(format!(
            "{} hits{} in {} scanned",
            exact(self.total),
            if shown < self.total { format!(" ({} shown)", exact(shown)) } else { String::new() },
            human(self.scanned)
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.hits, out)
    }
}

impl Render for WhatisReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        match &self.region {
            Some(r) => {
                doc.line(format!("{} is {}", self.address, r.kind));
                if let Some(place) = &self.place {
                    doc.line(format!("  place       {place}"));
                }
                if let Some(code) = &self.code {
                    doc.line(format!("  code        {code}"));
                }
                if let Some(b) = &self.block {
                    let (state, at) = (if b.used { "used" } else { "free" }, self.address.since(b.start));
                    doc.line(format!("  block       {}+{at:#x}, {} bytes, {state}", b.start, exact(b.size)));
                }
                doc.line(format!("  region      {}-{}  {}  {} bytes", r.start, r.end, r.perms, exact(r.size)));
                if !r.detail.is_empty() {
                    doc.line(format!("  detail      {}", r.detail));
                }
                if let Some(file) = &r.file {
                    doc.line(format!("  file        {file}"));
                }
                doc.line(format!("  known       {}", r.confidence));
                if let Some(evidence) = &self.evidence {
                    doc.line(format!("  evidence    {evidence}"));
                }
            }
            None => {
                doc.line(format!("{} is in no mapping of this core", self.address));
                for n in &self.neighbours {
                    let gap = if n.end <= self.address {
                        format!("{} above the end of", human(self.address.since(n.end)))
                    } else {
                        format!("{} below the start of", human(n.start.since(self.address)))
                    };
                    doc.line(format!("  {gap} {} {}-{} {}", n.kind, n.start, n.end, n.detail));
                }
            }
        }
        doc.line(format!("  readable    {}", self.readable));
        for c in &self.losers {
            doc.line(format!(
                "  also        {} {}-{} {} ({}: {})",
                c.kind, c.start, c.end, c.detail, c.confidence, c.evidence
            ));
        }
        if let Some(hex) = &self.bytes {
            dump(&mut doc, self.address, hex);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(self.region.as_slice(), out)
    }
}

/// Sixteen bytes a line, with their ASCII.
fn dump(doc: &mut Document<'_>, address: crate::addr::Addr, hex: &str) {
    let bytes: Vec<u8> =
        (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    for (i, line) in bytes.chunks(16).enumerate() {
        let text: String =
            line.iter().map(|&b| if b.is_ascii_graphic() || b == b' ' { char::from(b) } else { '.' }).collect();
        let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        // 80 columns with an address of user space.
        doc.whole(format!("{}  {:<47} {text}", address.saturating_add(16 * i as u64), hex.join(" ")));
    }
}

/// A command line of which only the program is told.
fn withheld(p: &ProcessRow) -> Option<String> {
    if !p.command_line_withheld {
        return None;
    }
    let arguments = match p.arguments {
        Some(0) => "no arguments".to_owned(),
        Some(1) => "1 argument".to_owned(),
        Some(n) => format!("{n} arguments"),
        None => "its arguments".to_owned(),
    };
    let shown = if p.arguments == Some(0) { "" } else { " (--show-data shows them)" };
    Some(format!("{} and {arguments}{shown}", p.program.as_deref().unwrap_or("a program")))
}

/// Names of variables, and how many entries have none.
fn variables(p: &ProcessRow, shown: &[String]) -> String {
    let names = shown.join(" ");
    match p.environment_withheld.saturating_sub(shown.len() as u64) {
        0 => names,
        1 => format!("{names} (and 1 entry without a name)"),
        n => format!("{names} (and {n} entries without names)"),
    }
}

impl Render for InfoReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let p = &self.process;
        let mut field = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                doc.titled(format!("{name:<13} {value}"), 14);
            }
        };
        field("executable", p.executable.clone());
        field("command line", p.command_line.as_ref().map(|a| a.join(" ")).or_else(|| withheld(p)));
        field("name", p.name.clone().filter(|n| !n.is_empty()));
        field("pid", p.pid.map(|v| v.to_string()));
        field("parent", p.parent.map(|v| v.to_string()));
        field("uid", p.uid.map(|v| v.to_string()));
        field(
            "signal",
            p.signal.as_ref().map(|s| {
                let at = s.address.map_or_else(String::new, |a| format!(" at {a}"));
                let code = s.code.map_or_else(String::new, |c| format!(" (si_code {c})"));
                format!("{} {}{code}{at}", s.number, s.name)
            }),
        );
        field("crash thread", p.crash_thread.map(|v| v.to_string()));
        for fact in &p.os {
            field(fact.what.name(), Some(format!("{} — {}", fact.value, fact.evidence)));
        }
        field("page size", Some(format!("{} bytes", exact(p.page_size))));
        field("environment", p.environment.as_ref().map(|e| variables(p, e)));
        let c = &self.completeness;
        doc.line("");
        doc.line(format!("{} mapped, {} in the core", human(c.mapped), human(c.in_core)));
        for note in &c.notes {
            doc.line(format!("· {note}"));
        }
        doc.line("");
        let mut table = TableBlock::default()
            .text("Base")
            .number("Size")
            .number("In core")
            .optional()
            .text("Kind")
            .flexible("Build id")
            .optional_rank(2)
            .flexible("Path")
            .least(32);
        for m in &self.modules {
            table.rows.push(vec![
                m.base.to_string(),
                human(m.size),
                human(m.in_core),
                m.kind.map_or("?", ImageFormat::name).to_owned(),
                m.build_id.clone().unwrap_or_default(),
                m.path.clone(),
            ]);
        }
        doc.table(table);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.modules, out)
    }
}

impl Render for CheckReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let mut table = TableBlock::default().text("Invariant").text("Holds").flexible("Figures");
        for i in &self.invariants {
            table.rows.push(vec![i.name.to_owned(), if i.ok { "yes" } else { "NO" }.to_owned(), i.detail.clone()]);
        }
        doc.table(table);
        if self.conflicts.is_empty() {
            doc.line("no two sure claims contradict each other");
        }
        for c in &self.conflicts {
            doc.line(format!("! {} bytes at {}: {} over {} ({})", exact(c.size), c.start, c.winner, c.loser, c.detail));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.invariants, out)
    }
}

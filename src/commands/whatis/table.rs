use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::whatis::report::{WhatisReport, WhatisRow};
use crate::map::{Confidence, Kind};
use crate::render::document::Document;
use crate::render::{Render, csv_each};
use crate::report::Name;
use crate::units::{exact, human};

impl Render for WhatisReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        for (i, row) in self.results.iter().enumerate() {
            if i > 0 {
                doc.line("");
            }
            row.add_lines(&mut doc);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_each::<CsvRow<'_>, _>(self.results.iter().filter_map(CsvRow::of), out)
    }
}

/// A row of the CSV: the region of an address, and the most specific fact about it.
#[derive(Default, Serialize)]
struct CsvRow<'a> {
    start: Addr,
    end: Addr,
    size: u64,
    kind: Kind,
    detail: &'a str,
    perms: &'a str,
    file: Option<&'a str>,
    in_core: u64,
    confidence: Confidence,
    address: Addr,
    place: Option<&'a str>,
    code: Option<&'a str>,
    object: Option<Addr>,
    object_type: Option<&'a str>,
    field: Option<&'a str>,
    descriptor: Option<&'a str>,
    handle: Option<&'a str>,
    block: Option<Addr>,
    content: Option<&'a str>,
}

impl<'a> CsvRow<'a> {
    /// Makes a row. `None` if the address is not mapped.
    fn of(row: &'a WhatisRow) -> Option<CsvRow<'a>> {
        let r = row.region.as_ref()?;
        let object = row.object.as_ref();
        Some(CsvRow {
            start: r.start,
            end: r.end,
            size: r.size,
            kind: r.kind,
            detail: &r.detail,
            perms: &r.perms,
            file: r.file.as_deref(),
            in_core: r.in_core,
            confidence: r.confidence,
            address: row.address,
            place: row.place.as_deref(),
            code: row.code.as_deref(),
            object: object.map(|o| o.address),
            object_type: object.map(|o| &*o.name),
            field: object.and_then(|o| o.field.as_deref()),
            descriptor: row.descriptor.as_ref().map(|d| d.name.as_str()),
            handle: row.handle.as_ref().map(|h| h.kind),
            block: row.block.as_ref().map(|b| b.start),
            content: row.content.as_ref().map(|c| c.content.as_str()),
        })
    }
}

impl WhatisRow {
    pub(in crate::commands) fn add_lines(&self, doc: &mut Document<'_>) {
        match &self.region {
            Some(r) => {
                doc.line(format!("{} is {}", self.address, r.kind));
                if let Some(place) = &self.place {
                    doc.line(format!("  location    {place}"));
                }
                if let Some(code) = &self.code {
                    doc.line(format!("  code        {code}"));
                }
                managed(doc, self);
                native(doc, self);
                if let Some(c) = &self.content {
                    let page = if c.page == c.content { String::new() } else { format!("; this page {}", c.page) };
                    let more = if c.whole { "" } else { " and beyond" };
                    doc.line(format!("  content     {}, {}-{}{more}{page}", c.content, c.start, c.end));
                }
                doc.line(format!("  region      {}-{}  {}  {} bytes", r.start, r.end, r.perms, exact(r.size)));
                if !r.detail.is_empty() {
                    doc.line(format!("  detail      {}", r.detail));
                }
                if let Some(file) = &r.file {
                    doc.line(format!("  file        {file}"));
                }
                doc.line(format!("  confidence  {}", r.confidence));
                if let Some(evidence) = &self.evidence {
                    doc.line(format!("  evidence    {evidence}"));
                }
            }
            None => {
                doc.line(format!("{} is not mapped in this core", self.address));
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
                "  rejected    {} {}-{} {} ({}: {})",
                c.kind, c.start, c.end, c.detail, c.confidence, c.evidence
            ));
        }
        if let Some(text) = &self.text {
            doc.line(format!("  text        {text}"));
        }
        if let Some(hex) = &self.bytes {
            dump(doc, self.address, hex);
        }
    }
}

fn managed(doc: &mut Document<'_>, row: &WhatisRow) {
    if let Some(method) = &row.method {
        if let Some(desc) = method.method_desc {
            let tier = method.tier.map(|tier| format!(", {tier}")).unwrap_or_default();
            let what = if method.has_metadata() { "MethodDesc" } else { "Method" };
            doc.line(format!("  method      {what} {desc}{tier}"));
        }
        if let (Some(file), Some(line)) = (&method.file, method.line) {
            doc.line(format!("  source      {file}:{line}"));
        }
        for inlined in method.inlined.iter().rev() {
            let line = inlined.line.map(|line| format!(":{line}")).unwrap_or_default();
            doc.line(format!("  inlined     {}{line}", inlined.method));
        }
    }
    if let Some(d) = &row.descriptor {
        doc.line(format!("  describes   {} of {} [{}]", d.kind, d.name, d.module));
    }
    if let Some(o) = &row.object {
        let at = if o.offset == 0 { String::new() } else { format!("+{:#x}", o.offset) };
        let name = o.name.shown();
        doc.line(format!("  object      {}{at}, {name}, {} bytes, {}", o.address, exact(o.size), o.generation));
        if let Some(field) = &o.field {
            doc.line(format!("  field       {}", field.shown()));
        }
        if let Some(value) = &o.value {
            doc.line(format!("  value       \"{value}\""));
        }
    }
    if let Some(h) = &row.handle {
        let typed = |name: &Option<Name>| name.as_ref().map_or_else(|| "?".to_owned(), Name::shown);
        let second = h.secondary.map(|s| format!(", keeps {s} {}", typed(&h.secondary_type))).unwrap_or_default();
        doc.line(format!("  handle      {} at {}, to {} {}{second}", h.kind, h.address, h.object, typed(&h.name)));
    }
}

fn native(doc: &mut Document<'_>, row: &WhatisRow) {
    if let Some(f) = &row.frame {
        let code = f.code.as_ref().map(|code| format!(", {code}")).unwrap_or_default();
        doc.line(format!("  frame       {} of thread {}, {}-{}{code}", f.index, f.thread, f.sp, f.end));
    }
    block(doc, row);
    if let Some(b) = &row.small_block {
        let (state, at) = (if b.used { "used" } else { "free" }, row.address.since(b.start));
        let (start, size) = (b.start, exact(b.size));
        doc.line(format!(
            "  block       {start}+{at:#x}, {size} bytes, {state}, in pool {} of {}",
            b.pool, b.allocator
        ));
    }
    if let Some(o) = &row.owner {
        let field = o.field.as_ref().map(|f| format!(", {}", f.shown())).unwrap_or_default();
        let owned = o.buffer.as_ref().map(|b| format!(", owns {} bytes at {} ({})", exact(b.size), b.start, b.memory));
        let owned = owned.unwrap_or_default();
        doc.line(format!("  owner       {} {} {}{field}{owned}", o.kind, o.address, o.name.shown()));
    }
}

/// Shows a malloc block, and the number of equal blocks.
fn block(doc: &mut Document<'_>, row: &WhatisRow) {
    let Some(b) = &row.block else { return };
    let (state, at) = (if b.used { "used" } else { "free" }, row.address.since(b.start));
    doc.line(format!("  block       {}+{at:#x}, {} bytes, {state}", b.start, exact(b.size)));
    if let Some(c) = &b.cluster {
        let begins = match (&c.symbol, c.fill, c.first_word) {
            (Some(symbol), _, _) => format!("that begin with {symbol}"),
            (_, Some(0), _) => "filled with zeros".into(),
            (_, Some(byte), _) => format!("filled with 0x{byte:02x}"),
            (_, _, Some(word)) => format!("that begin with {word}"),
            _ => "whose contents are not in the core".into(),
        };
        let what =
            if c.count == 1 { "no other".to_owned() } else { format!("{} in all, {}", exact(c.count), human(c.bytes)) };
        doc.line(format!("  alike       chunks of {} bytes {begins}: {what}", exact(c.size)));
        if let Some(category) = &c.category {
            doc.line(format!("  category    {category}"));
        }
    }
    if let Some(owner) = &b.owner {
        doc.line(format!("  holder      {} ({})", owner.line(), owner.confidence));
        if !owner.path.is_empty() {
            doc.line(format!("  through     {}", owner.path.join(" → ")));
        }
        doc.line(format!("  retains     {} bytes", exact(owner.retained)));
    }
}

/// Shows sixteen bytes per line, in hexadecimal and ASCII.
fn dump(doc: &mut Document<'_>, address: Addr, hex: &str) {
    let bytes: Vec<u8> =
        (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    for (i, line) in bytes.chunks(16).enumerate() {
        let text: String =
            line.iter().map(|&b| if b.is_ascii_graphic() || b == b' ' { char::from(b) } else { '.' }).collect();
        let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        // Fits in 80 columns for addresses in user space.
        doc.unwrapped(format!("{}  {:<47} {text}", address.saturating_add(16 * i as u64), hex.join(" ")));
    }
}

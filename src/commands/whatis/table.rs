use std::io::{self, Write};

use crate::commands::whatis::report::WhatisReport;
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::units::{exact, human};

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

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::ip2method::report::{Ip2MethodReport, IpRow};
use crate::render::{Document, Render, csv_rows};
use crate::report::InlinedRow;

/// The report with one line per address.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Short(pub Ip2MethodReport);

impl Render for Ip2MethodReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        for (i, row) in self.results.iter().enumerate() {
            if i > 0 {
                doc.line("");
            }
            block(&mut doc, row);
        }
        doc
    }

    fn wants_headline(&self) -> bool {
        false
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.results.iter().map(CsvRow::of).collect::<Vec<_>>(), out)
    }
}

impl Render for Short {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        for row in &self.0.results {
            doc.unwrapped(short(row));
        }
        doc
    }

    fn wants_headline(&self) -> bool {
        false
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.csv(out)
    }
}

/// 16 digits, as SOS prints addresses.
fn wide(addr: Option<Addr>) -> String {
    format!("{:016x}", addr.map_or(0, |a| a.get()))
}

/// Width of a title in columns, as in SOS `ip2md`.
const TITLE: usize = 22;

fn field(doc: &mut Document<'_>, title: &str, value: impl std::fmt::Display) {
    doc.titled(format!("{title:<TITLE$}{value}"), TITLE);
}

/// The fields of SOS `ip2md`, in its order.
fn block(doc: &mut Document<'_>, row: &IpRow) {
    if row.found && !row.has_metadata() {
        return plain(doc, row);
    }
    field(doc, "IP:", wide(Some(row.ip)));
    if !row.found {
        doc.line(row.reason.as_deref().unwrap_or("unknown code"));
        return;
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "?".into());
    field(doc, "MethodDesc:", wide(row.method_desc));
    field(doc, "Method Name:", text(&row.method));
    field(doc, "Class:", wide(row.class));
    field(doc, "MethodTable:", wide(row.method_table));
    field(doc, "mdToken:", format!("{:0>16}", text(&row.token).trim_start_matches("0x")));
    field(doc, "Module:", format!("{}  {}", wide(row.module_address), row.module.as_deref().unwrap_or("")));
    field(doc, "IsJitted:", if row.jitted == Some(true) { "yes" } else { "no (precompiled)" });
    let place = match row.offset {
        Some(offset) => format!("this address is at +{offset:#x}"),
        None => format!("this address is in its cold code at {}", wide(row.cold_start)),
    };
    let size = row.code_size.unwrap_or(0);
    let bytes = if size == 1 { "byte" } else { "bytes" };
    field(doc, "Current CodeAddr:", format!("{}  {size} {bytes}, {place}", wide(row.code_start)));
    doc.line("Version History:");
    let mut il = None;
    for version in &row.versions {
        if il != Some(version.il_version) {
            il = Some(version.il_version);
            doc.line(format!("  ILCodeVersion:      {:016x}", version.il_version));
            doc.line(format!("  IL Addr:            {}", wide(version.il_address)));
        }
        let here = if version.code == row.code_start { "  <- this code" } else { "" };
        field(doc, "    CodeAddr:", format!("{}  ({}){here}", wide(version.code), version.tier));
    }
    match row.il_offset {
        Some(-1) => field(doc, "IL offset:", "no mapping"),
        Some(-2) => field(doc, "IL offset:", "prolog"),
        Some(-3) => field(doc, "IL offset:", "epilog"),
        Some(offset) => field(doc, "IL offset:", format!("{offset:#x}")),
        None => {}
    }
    if let (Some(file), Some(line)) = (&row.file, row.line) {
        field(doc, "Source file:", format!("{file} @ {line}"));
    }
    if let Some(note) = &row.note {
        field(doc, "Note:", note);
    }
}

/// Writes a method of a runtime without metadata like CoreCLR's.
fn plain(doc: &mut Document<'_>, row: &IpRow) {
    field(doc, "IP:", wide(Some(row.ip)));
    field(doc, "Method Name:", row.method.as_deref().unwrap_or("?"));
    field(doc, "Method:", wide(row.method_desc));
    field(doc, "Class:", wide(row.class));
    field(doc, "Module:", row.module.as_deref().unwrap_or(""));
    field(doc, "Compiled:", row.tier.unwrap_or("?"));
    let (size, offset) = (row.code_size.unwrap_or(0), row.offset.unwrap_or(0));
    field(doc, "Code:", format!("{}  {size} bytes, this address is at +{offset:#x}", wide(row.code_start)));
    for version in row.versions.iter().filter(|v| v.code != row.code_start) {
        field(doc, "Other code:", format!("{}  ({})", wide(version.code), version.tier));
    }
    if let Some(offset) = row.il_offset {
        field(doc, "Bytecode:", offset);
    }
    let place = |file: &Option<String>, line: Option<u32>| match (file, line) {
        (Some(file), Some(line)) => format!("{file} @ {line}"),
        (Some(file), None) => file.clone(),
        (None, _) => String::new(),
    };
    if row.file.is_some() {
        field(doc, "Source file:", place(&row.file, row.line));
    }
    for inlined in row.inlined.iter().rev() {
        field(doc, "  calls, inlined:", format!("{}  {}", inlined.method, place(&inlined.file, inlined.line)));
    }
    if let Some(note) = &row.note {
        field(doc, "Note:", note);
    }
}

/// The chain of inlined methods, each before the method it was inlined into.
fn inlined(row: &IpRow) -> String {
    row.inlined.iter().map(InlinedRow::before_caller).collect()
}

fn short(row: &IpRow) -> String {
    let name = match (&row.method, &row.reason) {
        (Some(method), _) => {
            let method = inlined(row) + method;
            let offset = row.offset.map_or_else(|| " (cold code)".to_owned(), |o| format!("+{o:#x}"));
            format!("{method}{offset} [{}] {}", row.module.as_deref().unwrap_or("?"), row.tier.unwrap_or(""))
        }
        (None, Some(reason)) => reason.clone(),
        (None, None) => "?".into(),
    };
    let place = match (&row.file, row.line) {
        (Some(file), Some(line)) => format!(" {file}:{line}"),
        _ => String::new(),
    };
    format!("{} {name}{place}", row.ip)
}

#[derive(Default, Serialize)]
struct CsvRow<'a> {
    ip: Addr,
    found: bool,
    method: Option<&'a str>,
    offset: Option<u64>,
    method_desc: Option<Addr>,
    method_table: Option<Addr>,
    token: Option<&'a str>,
    module: Option<&'a str>,
    code_start: Option<Addr>,
    code_size: Option<u64>,
    tier: Option<&'static str>,
    il_offset: Option<i64>,
    file: Option<&'a str>,
    line: Option<u32>,
    inlined: String,
    reason: Option<&'a str>,
}

impl<'a> CsvRow<'a> {
    fn of(row: &'a IpRow) -> CsvRow<'a> {
        CsvRow {
            ip: row.ip,
            found: row.found,
            method: row.method.as_deref(),
            offset: row.offset,
            method_desc: row.method_desc,
            method_table: row.method_table,
            token: row.token.as_deref(),
            module: row.module.as_deref(),
            code_start: row.code_start,
            code_size: row.code_size,
            tier: row.tier,
            il_offset: row.il_offset,
            file: row.file.as_deref(),
            line: row.line,
            inlined: inlined(row).trim_end_matches(" <- ").to_owned(),
            reason: row.reason.as_deref(),
        }
    }
}

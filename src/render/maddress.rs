//! The map in the shape and words of SOS `!maddress`, for people who know that
//! one: its columns, its kinds, its sizes (`kb` there means KiB).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::bytes::printable;
use crate::report::RegionRow;

/// The tables as SOS prints them; only the summary with `summary_only`.
pub fn maddress(rows: &[RegionRow], summary_only: bool) -> String {
    let mut out = String::new();
    let words: Vec<Words<'_>> = rows.iter().map(Words::of).collect();
    if !summary_only {
        list(&words, &mut out);
    }
    summary(&words, &mut out);
    out
}

struct Words<'a> {
    row: &'a RegionRow,
    kind: String,
    memory_type: &'static str,
    state: &'static str,
    protect: &'static str,
}

impl Words<'_> {
    fn of(row: &RegionRow) -> Words<'_> {
        let protect = protect(&row.perms);
        let memory_type = match row.kind {
            "Image" => "MEM_IMAGE",
            "MappedFile" | "SharedMemory" | "DoubleMapped" => "MEM_MAPPED",
            _ => "MEM_PRIVATE",
        };
        // What SOS has no word for it calls by its protection.
        let kind = match row.kind {
            "AnonRW" | "AnonRO" | "AnonRX" | "AnonRWX" | "NoAccess" | "Malloc" | "StackGuard" | "Vdso" => {
                protect.to_owned()
            }
            "MappedFile" | "SharedMemory" | "DoubleMapped" => protect.replacen("PAGE_", "MAPPED_", 1),
            kind => kind.to_owned(),
        };
        let state = if protect == "PAGE_NOACCESS" { "MEM_RESERVE" } else { "MEM_COMMIT" };
        Words { row, kind, memory_type, state, protect }
    }
}

fn protect(perms: &str) -> &'static str {
    let has = |c| perms.contains(c);
    match (has('r'), has('w'), has('x')) {
        (_, true, true) => "PAGE_EXECUTE_READWRITE",
        (_, true, false) => "PAGE_READWRITE",
        (true, false, true) => "PAGE_EXECUTE_READ",
        (false, false, true) => "PAGE_EXECUTE",
        (true, false, false) => "PAGE_READONLY",
        (false, false, false) if has('?') => "PAGE_READONLY",
        (false, false, false) => "PAGE_NOACCESS",
    }
}

/// `24.00kb`, as SOS humanizes.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["b", "kb", "mb", "gb", "tb"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes}b") } else { format!("{value:.2}{}", UNITS[unit]) }
}

fn list(words: &[Words<'_>], out: &mut String) {
    let kind = words.iter().map(|w| w.kind.len()).max().unwrap_or(0).max("Memory Kind".len());
    let protect = words.iter().map(|w| w.protect.len()).max().unwrap_or(0).max("Protect".len());
    let images: Vec<String> =
        words.iter().map(|w| w.row.file.as_deref().map(printable).unwrap_or_default().into_owned()).collect();
    let image = images.iter().map(|i| i.chars().count()).max().unwrap_or(0).max("Image".len());
    let line = |out: &mut String| {
        let width = kind + 16 + 16 + 12 + 11 + 11 + protect + image + 3 * 7 + 2;
        let _ = writeln!(out, " +{}+", "-".repeat(width));
    };
    line(out);
    let _ = writeln!(
        out,
        " | {:<kind$} | {:>16} | {:>16} | {:>12} | {:<11} | {:<11} | {:<protect$} | {:<image$} |",
        "Memory Kind", "StartAddr", "EndAddr-1", "Size", "Type", "State", "Protect", "Image"
    );
    line(out);
    for (w, image_name) in words.iter().zip(&images) {
        let _ = writeln!(
            out,
            " | {:<kind$} | {:>16x} | {:>16x} | {:>12} | {:<11} | {:<11} | {:<protect$} | {:<image$} |",
            w.kind,
            w.row.start.0,
            w.row.end.0,
            human(w.row.size),
            w.memory_type,
            w.state,
            w.protect,
            image_name
        );
    }
    line(out);
    out.push('\n');
}

fn summary(words: &[Words<'_>], out: &mut String) {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for w in words {
        let sum = kinds.entry(&w.kind).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(w.row.size);
    }
    let mut rows: Vec<_> = kinds.into_iter().collect();
    rows.sort_by_key(|(kind, (_, size))| (std::cmp::Reverse(*size), *kind));
    let total = rows.iter().fold((0u64, 0u64), |t, (_, (n, s))| (t.0 + n, t.1.saturating_add(*s)));
    let exact = crate::units::exact;
    let kind = rows.iter().map(|(k, _)| k.len()).max().unwrap_or(0).max("Memory Type".len());
    let bytes = exact(total.1).len().max("Size (bytes)".len());
    let line = |out: &mut String| {
        let _ = writeln!(out, " +{}+", "-".repeat(kind + 14 + 12 + bytes + 3 * 3 + 2));
    };
    let row = |out: &mut String, name: &str, count: &str, size: &str, size_bytes: &str| {
        let _ = writeln!(out, " | {name:<kind$} | {count:>14} | {size:>12} | {size_bytes:>bytes$} |");
    };
    line(out);
    row(out, "Memory Type", "Count", "Size", "Size (bytes)");
    line(out);
    for (name, (count, size)) in &rows {
        row(out, name, &exact(*count), &human(*size), &exact(*size));
    }
    line(out);
    row(out, "[TOTAL]", &exact(total.0), &human(total.1), &exact(total.1));
    line(out);
}

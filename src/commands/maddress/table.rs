//! The map in the form of SOS `!maddress`: its columns, its kinds and its sizes (where `kb` means KiB).

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::map::kind_facts::{Backing, SosWord};
use crate::render::csv_rows;
use crate::render::cut::{columns, shorten};
use crate::render::document::Cut;
use crate::report::{Name, RegionRow};
use serde::Serialize;

/// Writes the tables as SOS prints them: the first `listed` rows, and the summary of all. If `width` is known, the
/// least useful columns are omitted and paths are cut to fit.
///
/// # Errors
/// Errors of writing.
pub fn maddress(rows: &[RegionRow], listed: usize, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    if listed > 0 {
        list(rows.get(..listed).unwrap_or(rows), width, out)?;
    }
    summary(&sums(rows), out)
}

/// Writes the rows of the summary as CSV.
///
/// # Errors
/// Errors of writing.
pub fn maddress_summary_csv(rows: &[RegionRow], out: &mut dyn Write) -> io::Result<()> {
    #[derive(Default, Serialize)]
    struct Row<'a> {
        memory_type: &'a str,
        count: u64,
        size: u64,
    }
    let sums = sums(rows);
    let rows = sums.iter().map(|(memory_type, (count, size))| Row { memory_type, count: *count, size: *size });
    csv_rows(&rows.collect::<Vec<_>>(), out)
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
        let facts = row.kind.facts();
        let memory_type = match facts.backing {
            Backing::Image => "MEM_IMAGE",
            Backing::File | Backing::Shared | Backing::SecondView => "MEM_MAPPED",
            Backing::Anonymous => "MEM_PRIVATE",
        };
        // SOS names kinds that it does not know by their protection.
        let kind = match facts.sos {
            SosWord::Own => row.kind.to_string(),
            SosWord::Protection => protect.to_owned(),
            SosWord::Mapped => protect.replacen("PAGE_", "MAPPED_", 1),
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

/// Formats a size as SOS does: `24.00kb`.
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

/// Columns of the list, in order, and the order in which they are dropped on a narrow terminal. In most rows the kind
/// implies the dropped columns.
const COLUMNS: [(&str, Option<u8>); 8] = [
    ("Memory Kind", None),
    ("StartAddr", None),
    ("EndAddr-1", None),
    ("Size", None),
    ("Type", Some(1)),
    ("State", Some(0)),
    ("Protect", Some(2)),
    ("Image", Some(3)),
];

/// Index of the column with paths, and the minimum width that it is cut to.
const IMAGE: usize = 7;
const SHORT_IMAGE: usize = 12;

fn list(rows: &[RegionRow], limit: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let words = || rows.iter().map(Words::of);
    let longest =
        |least: usize, of: &dyn Fn(&Words<'_>) -> usize| words().map(|w| of(&w)).max().unwrap_or(0).max(least);
    let image = |w: &Words<'_>| w.row.file.as_ref().map(Name::shown).unwrap_or_default();
    let mut widths = [
        longest(COLUMNS[0].0.len(), &|w| w.kind.len()),
        16,
        16,
        12,
        11,
        11,
        longest(COLUMNS[6].0.len(), &|w| w.protect.len()),
        longest(COLUMNS[IMAGE].0.len(), &|w| columns(&image(w))),
    ];
    let mut kept: Vec<usize> = (0..COLUMNS.len()).collect();
    if let Some(limit) = limit {
        // A cell has a bar and two blanks; the row has a final bar and one blank.
        let least = |i: usize| if i == IMAGE { widths[i].min(SHORT_IMAGE) } else { widths[i] };
        let frame = |n: usize| 3 * n + 2;
        while kept.iter().map(|&i| least(i)).sum::<usize>() + frame(kept.len()) > limit {
            let first = kept.iter().enumerate().filter_map(|(at, &i)| Some((COLUMNS[i].1?, at))).min();
            let Some((_, first)) = first else { break };
            kept.remove(first);
        }
        let firm: usize = kept.iter().filter(|&&i| i != IMAGE).map(|&i| widths[i]).sum::<usize>() + frame(kept.len());
        widths[IMAGE] = widths[IMAGE].min(limit.saturating_sub(firm)).max(SHORT_IMAGE.min(widths[IMAGE]));
    }
    let rule = format!(" +{}+", "-".repeat(kept.iter().map(|&i| widths[i] + 3).sum::<usize>().saturating_sub(1)));
    let row = |cells: &[String; 8], out: &mut dyn Write| {
        write!(out, " |")?;
        for &i in &kept {
            let text = shorten(&cells[i], widths[i], Cut::Start);
            let fill = " ".repeat(widths[i].saturating_sub(columns(&text)));
            let number = (1..=3).contains(&i);
            if number {
                write!(out, " {fill}{text} |")?
            } else {
                write!(out, " {text}{fill} |")?
            };
        }
        writeln!(out)
    };
    writeln!(out, "{rule}")?;
    row(&COLUMNS.map(|c| c.0.to_owned()), out)?;
    writeln!(out, "{rule}")?;
    for w in words() {
        let cells = [
            w.kind.clone(),
            format!("{:x}", w.row.start.get()),
            format!("{:x}", w.row.end.get()),
            human(w.row.size),
            w.memory_type.to_owned(),
            w.state.to_owned(),
            w.protect.to_owned(),
            image(&w),
        ];
        row(&cells, out)?;
    }
    writeln!(out, "{rule}\n")
}

/// Regions and bytes by kind, most bytes first.
fn sums(rows: &[RegionRow]) -> Vec<(String, (u64, u64))> {
    let mut kinds: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for w in rows.iter().map(Words::of) {
        let sum = kinds.entry(w.kind).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(w.row.size);
    }
    let mut rows: Vec<_> = kinds.into_iter().collect();
    rows.sort_by_key(|(_, (_, size))| std::cmp::Reverse(*size));
    rows
}

fn summary(rows: &[(String, (u64, u64))], out: &mut dyn Write) -> io::Result<()> {
    let total = rows.iter().fold((0u64, 0u64), |t, (_, (n, s))| (t.0 + n, t.1.saturating_add(*s)));
    let exact = crate::units::exact;
    let kind = rows.iter().map(|(k, _)| k.len()).max().unwrap_or(0).max("Memory Type".len());
    let bytes = exact(total.1).len().max("Size (bytes)".len());
    let line = |out: &mut dyn Write| writeln!(out, " +{}+", "-".repeat(kind + 14 + 12 + bytes + 3 * 3 + 2));
    let row = |out: &mut dyn Write, name: &str, count: &str, size: &str, size_bytes: &str| {
        writeln!(out, " | {name:<kind$} | {count:>14} | {size:>12} | {size_bytes:>bytes$} |")
    };
    line(out)?;
    row(out, "Memory Type", "Count", "Size", "Size (bytes)")?;
    line(out)?;
    for (name, (count, size)) in rows {
        row(out, name, &exact(*count), &human(*size), &exact(*size))?;
    }
    line(out)?;
    row(out, "[TOTAL]", &exact(total.0), &human(total.1), &exact(total.1))?;
    line(out)
}

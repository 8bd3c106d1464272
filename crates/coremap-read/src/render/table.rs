//! Draws documents as text.

use std::borrow::Cow;
use std::io::{self, Write};

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::width::WidthList;
use tabled::settings::{Alignment, Padding, Style};
use unicode_width::UnicodeWidthStr;

use crate::bytes::printable;
use crate::render::bar::{BAR, bar};
use crate::render::cut::{columns, shorten};
use crate::render::document::{
    Align, Block, CRITICAL, CRITICAL_WORD, Document, MIN_FLEXIBLE, TableBlock, WARNING, WARNING_WORD,
};
use crate::units::{exact, noun};

/// Options for drawing.
#[derive(Clone, Copy, Debug)]
pub struct DrawOptions {
    /// Width of the terminal in columns. `None`: unlimited (a pipe or a file).
    pub width: Option<usize>,
    /// Whether bold and colours are allowed.
    pub color: bool,
    /// Whether to draw bars for shares. Only on a terminal, not for programs.
    pub bars: bool,
}

/// Maximum length of the line under a header if there is no terminal width.
const MAX_RULE: usize = 160;

/// Number of spaces between columns.
const GAP: usize = 2;

/// Writes a document.
///
/// # Errors
/// Errors of `out`.
pub fn write(document: &Document<'_>, options: DrawOptions, out: &mut dyn Write) -> io::Result<()> {
    for block in &document.blocks {
        match block {
            Block::Line(text, indent) => write_line(&wrap(&printable(text), *indent, options.width), options, out)?,
            Block::Unwrapped(text) => writeln!(out, "{}", printable(text))?,
            Block::Table(table) => write_table(table, document.top, options, out)?,
            Block::Each(count, make) => (0..*count).try_for_each(|i| write(&make(i), options, out))?,
        }
    }
    Ok(())
}

/// Marks of serious lines with their colours: bold red and magenta. These terminal colours are readable on light and
/// dark backgrounds; yellow is not.
const MARKS: [(&str, &str); 4] =
    [(CRITICAL, "\x1b[1;31m"), (WARNING, "\x1b[35m"), (CRITICAL_WORD, "\x1b[1;31m"), (WARNING_WORD, "\x1b[35m")];

fn write_line(text: &str, options: DrawOptions, out: &mut dyn Write) -> io::Result<()> {
    let marked = MARKS.iter().find_map(|(mark, colour)| {
        let rest = text.strip_prefix(mark).filter(|rest| options.color && rest.starts_with(' '))?;
        Some((mark, colour, rest))
    });
    match marked {
        Some((mark, colour, rest)) => writeln!(out, "{colour}{mark}\x1b[0m{rest}"),
        None => writeln!(out, "{text}"),
    }
}

/// Wraps text between words. Continuation lines are indented by `indent`, unless that leaves too little space.
fn wrap(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width.filter(|&w| w >= 20) else { return text.to_owned() };
    let indent = " ".repeat(if indent * 2 <= width { indent } else { 2 });
    let words = text.trim_start_matches(' ');
    let mut out = text.get(..text.len() - words.len()).unwrap_or_default().to_owned();
    let mut column = out.len();
    for (i, word) in unbroken(words).into_iter().enumerate() {
        let n = word.width();
        if i > 0 && column + 1 + n > width && column > indent.len() {
            out.push('\n');
            out.push_str(&indent);
            column = indent.len();
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += n;
    }
    out
}

/// Splits a line into words. A number and its unit are one word.
fn unbroken(text: &str) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(' ') {
        let before = text.get(start..at).unwrap_or_default();
        let after = text.get(at + 1..).unwrap_or_default();
        let unit = after.split([' ', ',', ';', ':', '.', ')']).next().unwrap_or_default();
        let measured = before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit);
        if !measured {
            out.push(before);
            start = at + 1;
        }
    }
    out.push(text.get(start..).unwrap_or_default());
    out
}

/// Units that are not separated from their number at the end of a line.
const UNITS: [&str; 7] = ["%", "B", "KiB", "MiB", "GiB", "TiB", "bytes"];

/// Number of rows laid out at a time. A map of a million regions must not be in memory as text more than once.
const CHUNK: usize = 1024;

fn write_table(
    table: &TableBlock<'_>,
    top: Option<usize>,
    options: DrawOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = match table.brief.as_ref().map(|brief| top.unwrap_or(brief.default_rows)) {
        None | Some(0) => table.rows.len(),
        Some(most) => most.min(table.rows.len()),
    };
    let header: Vec<String> = table.columns.iter().map(|c| c.title.to_owned()).collect();
    let mut kept: Vec<usize> = (0..table.columns.len()).collect();
    let mut widths: Vec<usize> = vec![0; table.columns.len()];
    let mut widen = |row: &[String]| {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(columns(&printable(cell)));
        }
    };
    std::iter::once(&header).chain(&table.footer).for_each(|row| widen(row));
    table.rows.iter().take(shown).for_each(|row| widen(&row));
    let mut barred = table.bar.filter(|_| options.bars);
    if let Some(limit) = options.width {
        let beside = (kept.clone(), widths.clone());
        fit(table, limit, &mut kept, &mut widths);
        barred = barred.filter(|_| {
            let (mut kept_beside, mut widths_beside) = beside;
            fit(table, limit.saturating_sub(GAP + BAR), &mut kept_beside, &mut widths_beside);
            let fits = give_way(table, &kept, &kept_beside, &widths, &widths_beside, limit.saturating_sub(GAP + BAR));
            if fits {
                (kept, widths) = (kept_beside, widths_beside);
            }
            fits
        });
    }
    barred = barred.filter(|share| kept.contains(share));
    let bar = if barred.is_some() { GAP + BAR } else { 0 };
    let whole = kept.iter().map(|&i| widths[i]).sum::<usize>() + GAP * kept.len().saturating_sub(1) + bar;
    let lines = |rows: &[Cow<'_, [String]>]| lay_out(table, &kept, &widths, barred.map(|share| (share, true)), rows);
    // A sum is the whole, so a bar says nothing.
    let sums = |rows: &[Cow<'_, [String]>]| lay_out(table, &kept, &widths, barred.map(|share| (share, false)), rows);
    let rule = "-".repeat(whole.min(options.width.unwrap_or(MAX_RULE)));
    for line in lines(&[header.as_slice().into()]) {
        if options.color {
            writeln!(out, "\x1b[1m{line}\x1b[0m")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out, "{rule}")?;
    let mut rows = table.rows.iter().take(shown);
    let mut written = 0;
    loop {
        // If there is no separator, or if it was drawn, none is due.
        let to_apart = table.apart.filter(|&at| at > written).map_or(CHUNK, |at| at - written);
        let chunk: Vec<_> = rows.by_ref().take(to_apart.min(CHUNK)).collect();
        if chunk.is_empty() {
            break;
        }
        if written > 0 && table.apart == Some(written) {
            writeln!(out, "{rule}")?;
        }
        written += chunk.len();
        for line in lines(&chunk) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(footer) = &table.footer {
        writeln!(out, "{rule}")?;
        for line in sums(&[footer.as_slice().into()]) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(rest) = table.brief.as_ref().and_then(|brief| brief.rest(table.rows.len(), shown)) {
        writeln!(out, "{}", wrap(&rest, 0, options.width))?;
    }
    let more = table.columns.len().saturating_sub(kept.len()) as u64;
    if more > 0 {
        writeln!(out, "and {} more {}: --wide", exact(more), noun(more, "column"))?;
    }
    Ok(())
}

/// Columns of this rank and above are dropped in favour of a bar.
const LESS_THAN_A_BAR: u8 = 3;

/// Whether the table loses only columns of rank [`LESS_THAN_A_BAR`] and above to a bar, and no part of a cell.
fn give_way(
    table: &TableBlock<'_>,
    kept: &[usize],
    beside: &[usize],
    widths: &[usize],
    widths_beside: &[usize],
    limit: usize,
) -> bool {
    let lost = kept.iter().filter(|i| !beside.contains(i));
    let little = |&i: &usize| table.columns[i].optional.is_some_and(|rank| rank >= LESS_THAN_A_BAR);
    let whole = beside.iter().map(|&i| widths_beside[i]).sum::<usize>() + GAP * beside.len().saturating_sub(1);
    lost.into_iter().all(little) && beside.iter().all(|&i| widths[i] == widths_beside[i]) && whole <= limit
}

/// Lays out rows as lines of text. Column widths are those of the whole table.
fn lay_out(
    table: &TableBlock<'_>,
    kept: &[usize],
    widths: &[usize],
    barred: Option<(usize, bool)>,
    rows: &[Cow<'_, [String]>],
) -> Vec<String> {
    let mut builder = Builder::with_capacity(rows.len(), kept.len());
    for row in rows {
        let cells = kept.iter().filter_map(|&i| Some((i, row.get(i)?)));
        builder.push_record(cells.flat_map(|(i, cell)| {
            let bar = barred.filter(|(share, _)| *share == i).map(|(_, drawn)| {
                let share = cell.parse::<f64>().ok().filter(|_| drawn).unwrap_or(0.0);
                bar(share / 100.0, BAR)
            });
            std::iter::once(shorten(&printable(cell), widths[i], table.columns[i].cut)).chain(bar)
        }));
    }
    let mut built = builder.build();
    built.with(Style::empty());
    built.with(Padding::new(0, GAP, 0, 0));
    let bar_of = |i: usize| barred.filter(|(share, _)| *share == i).map(|_| (Align::Left, BAR));
    let laid: Vec<(Align, usize)> =
        kept.iter().flat_map(|&i| std::iter::once((table.columns[i].align, widths[i])).chain(bar_of(i))).collect();
    for (at, _) in laid.iter().enumerate().filter(|(_, (align, _))| *align == Align::Right) {
        built.modify(Columns::one(at), Alignment::right());
    }
    // Rows are laid out in chunks, whose widths may differ from the whole table's.
    built.with(WidthList::from_iter(laid.iter().map(|(_, width)| width + GAP)));
    built.to_string().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Fits a table into `limit` columns of width. First it drops optional columns, as long as the others at their minimum
/// don't fit. Then it cuts flexible columns, the widest most. It cuts below their minimum only if nothing else helps.
fn fit(table: &TableBlock<'_>, limit: usize, kept: &mut Vec<usize>, widths: &mut [usize]) {
    let least = |i: usize, w: usize| if table.columns[i].flexible { w.min(table.columns[i].least) } else { w };
    let gaps = |n: usize| GAP * n.saturating_sub(1);
    while kept.iter().map(|&i| least(i, widths[i])).sum::<usize>() + gaps(kept.len()) > limit {
        let ranked = kept.iter().enumerate().filter_map(|(at, &i)| Some((table.columns[i].optional?, at)));
        let Some((_, first)) = ranked.max() else { break };
        kept.remove(first);
    }
    let flexible = |i: usize| table.columns[i].flexible;
    let firm: usize = kept.iter().filter(|&&i| !flexible(i)).map(|&i| widths[i]).sum::<usize>() + gaps(kept.len());
    let room = limit.saturating_sub(firm);
    let give: Vec<usize> = kept.iter().copied().filter(|&i| flexible(i)).collect();
    // Widths if each column is cut to `cap`, but not below its floor.
    let at = |cap: usize, floor: &dyn Fn(usize) -> usize, widths: &[usize]| -> Vec<usize> {
        give.iter().map(|&i| widths[i].min(cap.max(floor(i)))).collect()
    };
    let fits = |cap: usize, floor: &dyn Fn(usize) -> usize, widths: &[usize]| {
        at(cap, floor, widths).iter().sum::<usize>() <= room
    };
    let (kind, hard) = (|i: usize| table.columns[i].least, |i: usize| table.columns[i].least.min(MIN_FLEXIBLE));
    let floor: &dyn Fn(usize) -> usize = if fits(0, &kind, widths) { &kind } else { &hard };
    let widest = give.iter().map(|&i| widths[i]).max().unwrap_or(0).min(room);
    // Columns wider than the room are cut anyway. If no cap fits, all are at their floors.
    let cap = (0..=widest).rev().find(|&cap| fits(cap, floor, widths)).unwrap_or(0);
    let mut cut = at(cap, floor, widths);
    let mut spare = room.saturating_sub(cut.iter().sum::<usize>());
    for (w, &i) in cut.iter_mut().zip(&give) {
        let more = spare.min(widths[i] - *w);
        *w += more;
        spare -= more;
    }
    for (w, i) in cut.into_iter().zip(give) {
        widths[i] = w;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_cuts_flexible_columns_only() -> io::Result<()> {
        let mut table = TableBlock::default().text("Kind").flexible("File");
        table.rows.push(vec!["Image".into(), "/usr/lib/x86_64-linux-gnu/libc.so.6".into()]);
        let mut doc = Document::default();
        doc.table(table);
        let mut out = Vec::new();
        write(&doc, DrawOptions { width: Some(30), color: false, bars: false }, &mut out)?;
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.lines().all(|l| l.width() <= 30), "{text}");
        assert!(text.contains("libc.so.6") && text.contains('…'));
        Ok(())
    }

    #[test]
    fn the_highest_rank_goes_first_and_a_column_keeps_its_least() -> io::Result<()> {
        let table = || {
            let mut t = TableBlock::default().number("One").optional_rank(2).number("Two").optional().flexible("Does");
            t = t.least(20);
            t.rows.push(vec!["1111111111".into(), "2222222222".into(), "d".repeat(60)]);
            t
        };
        for (width, one, two, does) in [(60, true, true, 36), (40, false, true, 28), (30, false, false, 30)] {
            let mut doc = Document::default();
            doc.table(table());
            let mut out = Vec::new();
            write(&doc, DrawOptions { width: Some(width), color: false, bars: false }, &mut out)?;
            let text = String::from_utf8_lossy(&out).into_owned();
            assert!(text.lines().all(|l| l.width() <= width), "{text}");
            let row = text.lines().nth(2).unwrap_or_default();
            assert_eq!((row.contains('1'), row.contains('2')), (one, two), "{text}");
            assert_eq!(row.matches('d').count(), does - 1, "{text}");
            let more = match (one, two) {
                (true, true) => None,
                (false, true) => Some("and 1 more column: --wide"),
                _ => Some("and 2 more columns: --wide"),
            };
            assert_eq!(text.lines().nth(3), more, "{text}");
        }
        Ok(())
    }

    #[test]
    fn flexible_columns_share_what_there_is() -> io::Result<()> {
        let table = |least: usize| {
            let mut t = TableBlock::default().number("Number").flexible("A").least(least).flexible("B").least(least);
            t.rows.push(vec!["1".repeat(10), "a".repeat(30), "b".repeat(90)]);
            t
        };
        // Available width, minimum, and width of A and B: A is uncut as long as B is wider.
        for (width, least, a, b) in [(84, 12, 30, 40), (60, 12, 23, 23), (44, 30, 15, 15), (38, 12, 12, 12)] {
            let mut doc = Document::default();
            doc.table(table(least));
            let mut out = Vec::new();
            write(&doc, DrawOptions { width: Some(width), color: false, bars: false }, &mut out)?;
            let text = String::from_utf8_lossy(&out).into_owned();
            assert!(text.lines().all(|l| l.width() <= width), "{text}");
            let cells: Vec<usize> =
                text.lines().nth(2).into_iter().flat_map(|l| l.split("  ").map(|c| c.width())).collect();
            assert_eq!(cells, [10, a, b], "{text}");
        }
        Ok(())
    }

    #[test]
    fn a_number_keeps_its_unit_at_the_end_of_a_line() {
        let text = "it took 1.13 MiB of it (0.3 %), and 15,000 bytes more";
        for width in 20..50 {
            for line in wrap(text, 0, Some(width)).lines() {
                let ends = line.ends_with(|c: char| c.is_ascii_digit());
                assert!(!ends, "{line}");
            }
        }
    }

    #[test]
    fn a_rule_is_no_longer_than_a_line_that_can_be_read() -> io::Result<()> {
        let mut table = TableBlock::default().text("Wide");
        table.rows.push(vec!["w".repeat(400)]);
        let mut doc = Document::default();
        doc.table(table);
        let mut out = Vec::new();
        write(&doc, DrawOptions { width: None, color: false, bars: false }, &mut out)?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let widths: Vec<usize> = text.lines().map(|l| l.width()).collect();
        assert_eq!(widths, [4, MAX_RULE, 400], "{text}");
        Ok(())
    }

    #[test]
    fn what_is_wrapped_keeps_its_indentation() {
        let at = |text: &str, indent, width| wrap(text, indent, Some(width));
        assert_eq!(
            at("  place       of some thing that is long", 2, 24),
            "  place       of some\n  thing that is long"
        );
        assert_eq!(
            at("Name:  One(Two, Three, Four, Five)", 7, 20),
            "Name:  One(Two,\n       Three, Four,\n       Five)"
        );
        assert_eq!(at("    deep and deeper and deepest", 4, 20), "    deep and deeper\n    and deepest");
        // A word longer than a line stays after its title.
        assert_eq!(at("IP:   0123456789012345678901234", 6, 20), "IP:   0123456789012345678901234");
        assert_eq!(wrap("  a  b", 2, None), "  a  b");
    }

    #[test]
    fn control_characters_stay_out() -> io::Result<()> {
        let mut doc = Document::default();
        doc.line("a\u{1b}[2Jb");
        let mut out = Vec::new();
        write(&doc, DrawOptions { width: None, color: false, bars: false }, &mut out)?;
        assert_eq!(out, b"a\\x1b[2Jb\n");
        Ok(())
    }
}

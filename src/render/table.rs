//! Documents as text.

use std::borrow::Cow;
use std::io::{self, Write};

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::width::WidthList;
use tabled::settings::{Alignment, Padding, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::bytes::printable;
use crate::render::document::{Align, Block, CRITICAL, Cut, Document, MIN_FLEXIBLE, TableBlock, WARNING};

/// How text is to look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of the terminal; `None`: as wide as it gets (a pipe or a file).
    pub width: Option<usize>,
    /// Whether bold and colours may be used.
    pub color: bool,
}

/// Longest line under a header where there is no terminal to give a width.
const MAX_RULE: usize = 160;

/// Spaces between columns.
const GAP: usize = 2;

/// Write a document.
///
/// # Errors
/// Those of writing.
pub fn write(document: &Document<'_>, look: Look, out: &mut dyn Write) -> io::Result<()> {
    for block in &document.blocks {
        match block {
            Block::Line(text, indent) => write_line(&wrap(&printable(text), *indent, look.width), look, out)?,
            Block::Whole(text) => writeln!(out, "{}", printable(text))?,
            Block::Table(table) => write_table(table, document.top, look, out)?,
            Block::Each(count, make) => (0..*count).try_for_each(|i| write(&make(i), look, out))?,
        }
    }
    Ok(())
}

/// Marks of what is serious, each with its colour: red, and yellow, as the terminal has them, so that they can be
/// seen on light and on dark.
const MARKS: [(&str, &str); 2] = [(CRITICAL, "\x1b[31m"), (WARNING, "\x1b[33m")];

fn write_line(text: &str, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let marked = MARKS.iter().find_map(|(mark, colour)| {
        let rest = text.strip_prefix(mark).filter(|rest| look.color && rest.starts_with(' '))?;
        Some((mark, colour, rest))
    });
    match marked {
        Some((mark, colour, rest)) => writeln!(out, "{colour}{mark}\x1b[0m{rest}"),
        None => writeln!(out, "{text}"),
    }
}

/// Break text between words; what follows is indented by `indent`, unless that
/// leaves no room.
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

/// Words of a line; a number and its unit are one.
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

/// What a number is not parted from at the end of a line.
const UNITS: [&str; 7] = ["%", "B", "KiB", "MiB", "GiB", "TiB", "bytes"];

/// Rows laid out at a time: a map of a million regions must not be held in
/// memory as text more than once.
const CHUNK: usize = 1024;

fn write_table(table: &TableBlock<'_>, top: Option<usize>, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let shown = match table.brief.as_ref().map(|brief| top.unwrap_or(brief.most)) {
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
    if let Some(limit) = look.width {
        fit(table, limit, &mut kept, &mut widths);
    }
    let lines = |rows: &[Cow<'_, [String]>]| lay_out(table, &kept, &widths, rows);
    let whole = kept.iter().map(|&i| widths[i]).sum::<usize>() + GAP * kept.len().saturating_sub(1);
    let rule = "-".repeat(whole.min(look.width.unwrap_or(MAX_RULE)));
    for line in lines(&[header.as_slice().into()]) {
        if look.color {
            writeln!(out, "\x1b[1m{line}\x1b[0m")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out, "{rule}")?;
    let mut rows = table.rows.iter().take(shown);
    let mut written = 0;
    loop {
        // None there or none left: no line is to be drawn.
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
        for line in lines(&[footer.as_slice().into()]) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(rest) = table.brief.as_ref().and_then(|brief| brief.rest(table.rows.len(), shown)) {
        writeln!(out, "{}", wrap(&rest, 0, look.width))?;
    }
    Ok(())
}

/// Rows as lines of text, each column as wide as it is over the whole table.
fn lay_out(table: &TableBlock<'_>, kept: &[usize], widths: &[usize], rows: &[Cow<'_, [String]>]) -> Vec<String> {
    let mut builder = Builder::with_capacity(rows.len(), kept.len());
    for row in rows {
        builder.push_record(
            kept.iter().filter_map(|&i| Some(shorten(&printable(row.get(i)?), widths[i], table.columns[i].cut))),
        );
    }
    let mut built = builder.build();
    built.with(Style::empty());
    built.with(Padding::new(0, GAP, 0, 0));
    for (at, _) in kept.iter().enumerate().filter(|(_, i)| table.columns[**i].align == Align::Right) {
        built.modify(Columns::one(at), Alignment::right());
    }
    // Rows are laid out some at a time: a part of them does not tell how wide a column is.
    built.with(WidthList::from_iter(kept.iter().map(|&i| widths[i] + GAP)));
    built.to_string().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Make a table fit: first the columns that may go are left out, as long as the
/// others at their least don't fit; then the flexible ones are cut, the widest
/// most, and below their least only where nothing else helps.
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
    // Every one as wide as `cap`, where it has that much and is not at its floor.
    let at = |cap: usize, floor: &dyn Fn(usize) -> usize, widths: &[usize]| -> Vec<usize> {
        give.iter().map(|&i| widths[i].min(cap.max(floor(i)))).collect()
    };
    let fits = |cap: usize, floor: &dyn Fn(usize) -> usize, widths: &[usize]| {
        at(cap, floor, widths).iter().sum::<usize>() <= room
    };
    let (kind, hard) = (|i: usize| table.columns[i].least, |i: usize| table.columns[i].least.min(MIN_FLEXIBLE));
    let floor: &dyn Fn(usize) -> usize = if fits(0, &kind, widths) { &kind } else { &hard };
    let widest = give.iter().map(|&i| widths[i]).max().unwrap_or(0).min(room);
    // What is wider than the room is cut anyway; none fits where all are at their floors.
    let cap = (0..=widest).rev().find(|&cap| fits(cap, floor, widths)).unwrap_or(0);
    let mut cut = at(cap, floor, widths);
    let mut spare = room.saturating_sub(cut.iter().sum());
    for (w, &i) in cut.iter_mut().zip(&give) {
        let more = spare.min(widths[i] - *w);
        *w += more;
        spare -= more;
    }
    for (w, i) in cut.into_iter().zip(give) {
        widths[i] = w;
    }
}

/// A cell in so many columns, with `…` for what is cut off.
pub(crate) fn shorten(cell: &str, width: usize, cut: Cut) -> String {
    let whole = columns(cell);
    if whole <= width {
        return cell.to_owned();
    }
    let room = width.saturating_sub(1);
    match cut {
        Cut::Start => format!("…{}", tail(cell, room)),
        Cut::End => format!("{}…", head(cell, room)),
        // The end tells more apart than the start.
        Cut::Middle => {
            let first = head(cell, room * 2 / 5).trim_end();
            format!("{first}…{}", tail(cell, room - first.width()).trim_start())
        }
        Cut::Ends => {
            let room = width.saturating_sub(2);
            format!("…{}…", head(tail(cell, whole - (whole - room) / 2), room))
        }
    }
}

/// Columns that a printable text takes.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// The start of a text, at most so many columns of it.
fn head(text: &str, columns: usize) -> &str {
    let mut have = 0;
    let end = text.char_indices().find(|&(_, c)| {
        have += c.width().unwrap_or(0);
        have > columns
    });
    text.get(..end.map_or(text.len(), |(at, _)| at)).unwrap_or_default()
}

/// The end of a text, at most so many columns of it.
fn tail(text: &str, columns: usize) -> &str {
    let mut have = 0;
    let cut = text.char_indices().rev().find(|&(_, c)| {
        have += c.width().unwrap_or(0);
        have > columns
    });
    text.get(cut.map_or(0, |(at, c)| at + c.len_utf8())..).unwrap_or_default()
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
        write(&doc, Look { width: Some(30), color: false }, &mut out)?;
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
            write(&doc, Look { width: Some(width), color: false }, &mut out)?;
            let text = String::from_utf8_lossy(&out).into_owned();
            assert!(text.lines().all(|l| l.width() <= width), "{text}");
            assert_eq!((text.contains('1'), text.contains('2')), (one, two), "{text}");
            assert_eq!(text.matches('d').count(), does - 1, "{text}");
        }
        Ok(())
    }

    #[test]
    fn what_is_cut_off_depends_on_what_tells_cells_apart() {
        let path = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(shorten(path, 10, Cut::Start), "…libc.so.6");
        assert_eq!(shorten("0x7f8e2da01be8 \"text\"", 17, Cut::End), "0x7f8e2da01be8 \"…");
        let doing = "Monitor.Wait ← Lab.Parking.Park";
        assert_eq!(shorten(doing, 21, Cut::Middle), "Monitor.…Parking.Park");
        assert_eq!(shorten("<<<<<<<<<<needle>>>>>>>>>>", 12, Cut::Ends), "…<<needle>>…");
        for cut in [Cut::Start, Cut::Middle, Cut::End, Cut::Ends] {
            for width in 1..40 {
                // Wide characters too: never more than asked for.
                for text in [path, doing, "一二三四五六七八九十一二三四五六七八九十"] {
                    let short = shorten(text, width, cut);
                    assert!(short.width() <= width.max(2), "{short} in {width} by {cut:?}");
                    assert_eq!(short == text, text.width() <= width);
                }
            }
        }
    }

    #[test]
    fn flexible_columns_share_what_there_is() -> io::Result<()> {
        let table = |least: usize| {
            let mut t = TableBlock::default().number("Number").flexible("A").least(least).flexible("B").least(least);
            t.rows.push(vec!["1".repeat(10), "a".repeat(30), "b".repeat(90)]);
            t
        };
        // Room, columns of A, columns of B: A is whole while B has more.
        for (width, least, a, b) in [(84, 12, 30, 40), (60, 12, 23, 23), (44, 30, 15, 15), (38, 12, 12, 12)] {
            let mut doc = Document::default();
            doc.table(table(least));
            let mut out = Vec::new();
            write(&doc, Look { width: Some(width), color: false }, &mut out)?;
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
        write(&doc, Look { width: None, color: false }, &mut out)?;
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
        // One word that is longer than a line stays beside its title.
        assert_eq!(at("IP:   0123456789012345678901234", 6, 20), "IP:   0123456789012345678901234");
        assert_eq!(wrap("  a  b", 2, None), "  a  b");
    }

    #[test]
    fn control_characters_stay_out() -> io::Result<()> {
        let mut doc = Document::default();
        doc.line("a\u{1b}[2Jb");
        let mut out = Vec::new();
        write(&doc, Look { width: None, color: false }, &mut out)?;
        assert_eq!(out, b"a\\x1b[2Jb\n");
        Ok(())
    }
}

//! Documents as text.

use std::io::{self, Write};

use tabled::builder::Builder;
use tabled::settings::{Padding, Style};
use unicode_width::UnicodeWidthStr;

use crate::bytes::printable;
use crate::render::document::{Align, Block, Document, TableBlock};

/// How text is to look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of the terminal; `None`: as wide as it gets (a pipe or a file).
    pub width: Option<usize>,
    /// Whether bold may be used.
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
pub fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    for block in &document.blocks {
        match block {
            Block::Line(text, indent) => writeln!(out, "{}", wrap(&printable(text), *indent, look.width))?,
            Block::Whole(text) => writeln!(out, "{}", printable(text))?,
            Block::Table(table) => write_table(table, look, out)?,
        }
    }
    Ok(())
}

/// Break text between words; what follows is indented by `indent`, unless that
/// leaves no room.
fn wrap(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width.filter(|&w| w >= 20) else { return text.to_owned() };
    let indent = " ".repeat(if indent * 2 <= width { indent } else { 2 });
    let words = text.trim_start_matches(' ');
    let mut out = text.get(..text.len() - words.len()).unwrap_or_default().to_owned();
    let mut column = out.len();
    for (i, word) in words.split(' ').enumerate() {
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

/// Rows laid out at a time: a map of a million regions must not be held in
/// memory as text more than once.
const CHUNK: usize = 1024;

fn write_table(table: &TableBlock, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let header: Vec<String> = table.columns.iter().map(|c| c.title.to_owned()).collect();
    let mut kept: Vec<usize> = (0..table.columns.len()).collect();
    let mut widths: Vec<usize> = vec![0; table.columns.len()];
    for row in std::iter::once(&header).chain(&table.rows).chain(&table.footer) {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(printable(cell).width());
        }
    }
    if let Some(limit) = look.width {
        fit(table, limit, &mut kept, &mut widths);
    }
    let lines = |rows: &[&Vec<String>]| lay_out(table, &kept, &widths, rows);
    let whole = kept.iter().map(|&i| widths[i]).sum::<usize>() + GAP * kept.len().saturating_sub(1);
    let rule = "-".repeat(whole.min(look.width.unwrap_or(MAX_RULE)));
    for line in lines(&[&header]) {
        if look.color {
            writeln!(out, "\x1b[1m{line}\x1b[0m")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    writeln!(out, "{rule}")?;
    for chunk in table.rows.chunks(CHUNK) {
        for line in lines(&chunk.iter().collect::<Vec<_>>()) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(footer) = &table.footer {
        writeln!(out, "{rule}")?;
        for line in lines(&[footer]) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Rows as lines of text, each column as wide as it is over the whole table.
fn lay_out(table: &TableBlock, kept: &[usize], widths: &[usize], rows: &[&Vec<String>]) -> Vec<String> {
    let mut builder = Builder::with_capacity(rows.len(), kept.len());
    for row in rows {
        let cells = kept.iter().filter_map(|&i| {
            let text = shorten(&printable(row.get(i)?), widths[i]);
            let fill = " ".repeat(widths[i].saturating_sub(text.width()));
            Some(match table.columns[i].align {
                Align::Left => text + &fill,
                Align::Right => fill + &text,
            })
        });
        builder.push_record(cells);
    }
    let mut built = builder.build();
    built.with(Style::empty());
    built.with(Padding::new(0, GAP, 0, 0));
    built.to_string().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Make a table fit: first the columns that may go are left out, as long as the
/// others at their least don't fit; then the flexible ones are cut.
fn fit(table: &TableBlock, limit: usize, kept: &mut Vec<usize>, widths: &mut [usize]) {
    let least = |i: usize, w: usize| if table.columns[i].flexible { w.min(table.columns[i].least) } else { w };
    let gaps = |n: usize| GAP * n.saturating_sub(1);
    while kept.iter().map(|&i| least(i, widths[i])).sum::<usize>() + gaps(kept.len()) > limit {
        let ranked = kept.iter().enumerate().filter_map(|(at, &i)| Some((table.columns[i].optional?, at)));
        let Some((_, first)) = ranked.max() else { break };
        kept.remove(first);
    }
    let total = kept.iter().map(|&i| widths[i]).sum::<usize>() + gaps(kept.len());
    let mut over = total.saturating_sub(limit);
    let mut flexible: Vec<usize> =
        kept.iter().copied().filter(|&i| table.columns[i].flexible && widths[i] > table.columns[i].least).collect();
    flexible.sort_by_key(|&i| std::cmp::Reverse(widths[i]));
    for i in flexible {
        let give = over.min(widths[i] - table.columns[i].least);
        widths[i] -= give;
        over -= give;
    }
}

/// Cut on the left: the ends of paths tell them apart.
fn shorten(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut kept = String::new();
    let mut have = 1;
    for c in cell.chars().rev() {
        let n = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if have + n > width {
            break;
        }
        have += n;
        kept.insert(0, c);
    }
    format!("…{kept}")
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

//! Fits text into columns.

use coremap::program::printable;
use coremap::render::{Cut, shorten};
use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Number of columns of a text after escaping.
pub(super) fn width(text: &str) -> usize {
    printable(text).width()
}

/// Returns a text in at most `columns` columns, with its end cut off.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    cut(text, columns, Cut::End)
}

/// Returns a text in at most `columns` columns, cut as `cut` says.
pub(super) fn cut(text: &str, columns: usize, cut: Cut) -> String {
    match columns {
        0 => String::new(),
        _ => shorten(&printable(text), columns, cut),
    }
}

/// Breaks a text into lines of at most `columns` columns: between words, and within longer words.
pub(in crate::cli::screen) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let text = printable(text);
    let mut lines = vec![String::new()];
    let mut have = 0;
    for word in text.split(' ') {
        let mut takes = word.width();
        if have > 0 && have + 1 + takes > columns {
            lines.push(String::new());
            have = 0;
        } else if have > 0 {
            push(&mut lines, " ");
            have += 1;
        }
        let mut word = word;
        while takes > columns - have {
            let mut columns_left = columns - have;
            let end = word.char_indices().find(|(_, c)| {
                let wide = c.width().unwrap_or(0);
                let fits = wide <= columns_left;
                columns_left = columns_left.saturating_sub(wide);
                !fits
            });
            // A character that is wider than the line is still shown.
            let end = end.map_or(word.len(), |(at, c)| if at == 0 && have == 0 { c.len_utf8() } else { at });
            let (head, rest) = word.split_at(end);
            push(&mut lines, head);
            lines.push(String::new());
            (word, have, takes) = (rest, 0, rest.width());
        }
        push(&mut lines, word);
        have += takes;
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

/// Returns a line without its first columns.
pub(super) fn from_column(line: &Line<'static>, columns: usize) -> Line<'static> {
    let mut left = columns;
    let mut spans = Vec::new();
    for span in &line.spans {
        let skipped = span.content.char_indices().find(|(_, c)| {
            let more = left > 0;
            left = left.saturating_sub(c.width().unwrap_or(0));
            !more
        });
        if let Some((at, _)) = skipped {
            spans.push(Span::styled(span.content.get(at..).unwrap_or_default().to_owned(), span.style));
        }
    }
    Line::from(spans)
}

/// Replaces everything that is not ASCII.
pub(super) fn in_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let plain = match cell.symbol() {
                "█" | "▉" | "▊" | "▋" | "▌" => "#",
                "▍" | "▎" | "▏" => ":",
                "▲" => "^",
                "▼" => "v",
                "─" | "·" => "-",
                "›" | "→" => ">",
                "←" => "<",
                "…" => "~",
                _ => "?",
            };
            cell.set_symbol(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_longer_than_the_screen_and_nothing_is_lost() {
        let texts =
            ["one two three four", "averyveryverylongword", "一二三四五六七八九十", "", " a  b ", "x\u{1b}[2Jy"];
        for text in texts {
            for columns in 2..30 {
                let lines = wrapped(text, columns);
                assert!(lines.iter().all(|line| line.width() <= columns), "{lines:?} in {columns}");
                let plain = |text: &str| text.replace(' ', "");
                assert_eq!(plain(&lines.concat()), plain(&printable(text)), "{columns}");
            }
            assert!(!wrapped(text, 0).is_empty());
        }
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
    }

    #[test]
    fn a_line_is_seen_from_a_column_on() {
        let line = Line::from(vec![Span::raw("ab一"), Span::raw("cd")]);
        let seen: Vec<String> = (0..8).map(|at| from_column(&line, at).to_string()).collect();
        assert_eq!(seen, ["ab一cd", "b一cd", "一cd", "cd", "cd", "d", "", ""]);
    }

    #[test]
    fn what_is_no_ascii_is_replaced() {
        let mut buffer = Buffer::with_lines(["█▏ · … › é 日"]);
        in_ascii(&mut buffer);
        let text: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert!(text.is_ascii(), "{text}");
        assert!(text.starts_with("#: - ~ > ? ?"), "{text}");
    }
}

//! Cuts cells that are too wide for their columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::render::document::Cut;

/// Cuts a cell to `width` columns, with `…` for the part that was cut.
pub fn shorten(cell: &str, width: usize, cut: Cut) -> String {
    let whole = columns(cell);
    if whole <= width {
        return cell.to_owned();
    }
    let room = width.saturating_sub(1);
    match cut {
        Cut::Start => format!("…{}", whole_tail(cell, tail(cell, room))),
        Cut::End => format!("{}…", whole_head(cell, head(cell, room))),
        // The end distinguishes names better than the start.
        Cut::Middle => {
            let first = whole_head(cell, head(cell, room * 2 / 5)).trim_end();
            format!("{first}…{}", whole_tail(cell, tail(cell, room - first.width())).trim_start())
        }
        Cut::Ends => {
            let room = width.saturating_sub(2);
            format!("…{}…", head(tail(cell, whole - (whole - room) / 2), room))
        }
    }
}

/// Whether a word or number ends between two characters.
fn is_boundary(before: char, after: char) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_point = |c: char| matches!(c, ',' | '.');
    let in_number = before.is_ascii_digit() && is_point(after) || is_point(before) && after.is_ascii_digit();
    !in_number && (!is_word(before) || !is_word(after) || (before.is_lowercase() && after.is_uppercase()))
}

/// The prefix `part` of `text` without a word that it has the beginning of only. All of it, if that is one word.
fn whole_head<'t>(text: &str, part: &'t str) -> &'t str {
    let rest = text.get(part.len()..).unwrap_or_default();
    let after = rest.chars().next();
    let mut ends = part.char_indices().rev().scan(after, |next, (at, c)| {
        let is_end = next.is_none_or(|next| is_boundary(c, next));
        *next = Some(c);
        Some((at + c.len_utf8(), is_end))
    });
    let end = ends.find_map(|(end, is_end)| is_end.then_some(end));
    end.and_then(|end| part.get(..end)).filter(|short| short.len() * 2 >= part.len()).unwrap_or(part)
}

/// The suffix `part` of `text` without a word that it has the end of only. All of it, if that is one word.
fn whole_tail<'t>(text: &str, part: &'t str) -> &'t str {
    let mut before = text.get(..text.len() - part.len()).unwrap_or_default().chars().next_back();
    for (at, c) in part.char_indices() {
        if before.is_none_or(|before| is_boundary(before, c)) {
            return part.get(at..).filter(|short| short.len() * 2 >= part.len()).unwrap_or(part);
        }
        before = Some(c);
    }
    part
}

/// Width of a printable text in columns.
#[doc(hidden)]
pub fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Longest prefix of a text with at most this many columns.
fn head(text: &str, columns: usize) -> &str {
    let mut have = 0;
    let end = text.char_indices().find(|&(_, c)| {
        have += c.width().unwrap_or(0);
        have > columns
    });
    text.get(..end.map_or(text.len(), |(at, _)| at)).unwrap_or_default()
}

/// Longest suffix of a text with at most this many columns.
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
    fn what_is_cut_off_depends_on_what_tells_cells_apart() {
        let path = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(shorten(path, 10, Cut::Start), "…libc.so.6");
        assert_eq!(shorten("0x7f8e2da01be8 \"text\"", 17, Cut::End), "0x7f8e2da01be8 \"…");
        let doing = "Monitor.Wait ← Lab.Parking.Park";
        assert_eq!(shorten(doing, 21, Cut::Middle), "Monitor.…Parking.Park");
        assert_eq!(shorten("<<<<<<<<<<needle>>>>>>>>>>", 12, Cut::Ends), "…<<needle>>…");
        // Words and numbers are not cut, unless little else would be left.
        let method = "AsyncTaskMethodBuilder<VoidTaskResult>+AsyncStateMachineBox<Shop.Desk+<Pay>d__3>";
        assert_eq!(shorten(method, 44, Cut::Middle), "AsyncTaskMethod…Box<Shop.Desk+<Pay>d__3>");
        assert_eq!(shorten("has 24,999 objects", 9, Cut::End), "has …");
        assert_eq!(shorten("retained by Shop.Orders.Index", 20, Cut::End), "retained by Shop.…");
        assert_eq!(shorten("abcdefghijklmnop", 8, Cut::End), "abcdefg…");
        for cut in [Cut::Start, Cut::Middle, Cut::End, Cut::Ends] {
            for width in 1..40 {
                // The result is never wider than requested, even with wide characters.
                for text in [path, doing, "一二三四五六七八九十一二三四五六七八九十"] {
                    let short = shorten(text, width, cut);
                    assert!(short.width() <= width.max(2), "{short} in {width} by {cut:?}");
                    assert_eq!(short == text, text.width() <= width);
                }
            }
        }
    }
}

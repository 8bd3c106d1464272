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
        Cut::Start => format!("…{}", tail(cell, room)),
        Cut::End => format!("{}…", head(cell, room)),
        // The end distinguishes names better than the start.
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

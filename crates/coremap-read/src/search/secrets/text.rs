//! Finds text among bytes: ASCII, and UTF-16LE at any address.
//!
//! All secrets are ASCII, so one check of text serves both encodings. Memory without text is skipped in groups of four
//! bytes. Eight consecutive characters contain such a group at any alignment.

use std::ops::Range;

use crate::addr::PAGE;
use crate::memory::scan::is_zero;
use crate::words::HitEncoding;

/// Minimum length of a text in characters.
const MIN_TEXT: usize = 8;

/// Number of bytes checked at once.
const LINE: usize = 64;

/// Number of bytes in a group.
const LANE: usize = 4;

/// Whether a byte is text: printable ASCII, tabs and line ends.
const fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')
}

/// Whether four bytes may all be ASCII text, or have two UTF-16 characters starting at the first or second byte.
/// Looser than [`is_text`], so that it takes few instructions.
fn may_be_text(lane: [u8; LANE]) -> bool {
    const TOPS: u32 = 0x8080_8080;
    let word = u32::from_le_bytes(lane);
    // Sets the top bit of each byte from 0x09 to 0x7f. A higher byte corrupts its neighbour, but is itself never one
    // of these.
    let tops = word.wrapping_add(0x7777_7777) & !word & TOPS;
    (tops == TOPS)
        | ((tops == 0x0080_0080) & (word & 0xff00_ff00 == 0))
        | ((tops == 0x8000_8000) & (word & 0x00ff_00ff == 0))
}

/// Calls `each` with the texts in `bytes` that reach into `starts`: encoding, index of the first byte, and the text up
/// to its end or the end of `bytes`. `scratch` is a buffer for decoded text.
pub(super) fn texts(
    bytes: &[u8],
    starts: &Range<usize>,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(HitEncoding, usize, &[u8]),
) {
    // A text that starts at the last of the starts has its first group shortly after.
    let stop = bytes.len().min(starts.end.saturating_add(2 * MIN_TEXT));
    let mut at = starts.start / LANE * LANE;
    while at < stop {
        if at.is_multiple_of(PAGE as usize) && bytes.get(at..at + PAGE as usize).is_some_and(is_zero) {
            at += PAGE as usize;
            continue;
        }
        if let Some(line) = bytes.get(at..at + LINE)
            && !line.as_chunks::<LANE>().0.iter().fold(false, |any, lane| any | may_be_text(*lane))
        {
            at += LINE;
            continue;
        }
        // Check a line by groups, or more if a text continues.
        let end = at + LINE;
        while at < end.min(stop) {
            let lane: [u8; LANE] = match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                Some(lane) => *lane,
                None => return,
            };
            let Some((encoding, found)) = may_be_text(lane).then(|| text_at(bytes, at, lane)).flatten() else {
                at += LANE;
                continue;
            };
            if found.start < starts.end {
                match encoding {
                    HitEncoding::Utf16 => {
                        scratch.clear();
                        scratch.extend(bytes[found.clone()].iter().step_by(2));
                        each(encoding, found.start, scratch);
                    }
                    _ => each(encoding, found.start, &bytes[found.clone()]),
                }
            }
            at = found.end.next_multiple_of(LANE).max(at + LANE);
        }
    }
}

/// Returns the text that contains the group `lane` at `at`, if it is long enough.
fn text_at(bytes: &[u8], at: usize, lane: [u8; LANE]) -> Option<(HitEncoding, Range<usize>)> {
    let narrow = lane.iter().all(|&b| is_text(b));
    if narrow {
        let before = bytes[..at].iter().rev().take_while(|&&b| is_text(b)).count();
        let behind = bytes[at..].iter().take_while(|&&b| is_text(b)).count();
        return (before + behind >= MIN_TEXT).then_some((HitEncoding::Utf8, at - before..at + behind));
    }
    let at = if lane.first() == Some(&0) { at + 1 } else { at };
    let wide = |pair: &&[u8; 2]| is_text(pair[0]) && pair[1] == 0;
    let before = bytes[..at].as_rchunks::<2>().1.iter().rev().take_while(wide).count();
    let behind = bytes[at..].as_chunks::<2>().0.iter().take_while(wide).count();
    (before + behind >= MIN_TEXT).then_some((HitEncoding::Utf16, at - 2 * before..at + 2 * behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], starts: Range<usize>) -> Vec<(HitEncoding, usize, String)> {
        let mut out = Vec::new();
        texts(bytes, &starts, &mut Vec::new(), |encoding, at, text| {
            out.push((encoding, at, String::from_utf8_lossy(text).into_owned()));
        });
        out
    }

    #[test]
    fn text_is_found_at_every_address_in_both_encodings_and_nothing_else() {
        for text in ["eight ch", "a longer text than that,\tof two\nlines or more, longer than a line of 64 bytes is"] {
            let wide: Vec<u8> = text.bytes().flat_map(|b| [b, 0]).collect();
            for (encoding, form) in [(HitEncoding::Utf8, text.as_bytes().to_vec()), (HitEncoding::Utf16, wide)] {
                for filler in [0, 1, 0x80, 0xff] {
                    for at in 1..140 {
                        let mut bytes = vec![filler; 400];
                        bytes[at..at + form.len()].copy_from_slice(&form);
                        let all = 0..bytes.len();
                        // A zero before the first character is not part of it.
                        assert_eq!(found(&bytes, all), [(encoding, at, text.to_owned())], "{filler} {at}");
                    }
                }
            }
        }
        let short = [&[0; 30], &b"seven c"[..], &[0; 30], b"s\0e\0v\0e\0n\0 \0c\0", &[0; 30]].concat();
        assert_eq!(found(&short, 0..short.len()), []);
    }

    #[test]
    fn a_text_across_a_border_is_told_on_both_sides_with_what_is_around_it() {
        let text = "x".repeat(200);
        let bytes = [&[0; 100], text.as_bytes(), &[0; 100]].concat();
        let whole = [(HitEncoding::Utf8, 100, text.clone())];
        for border in 104..290 {
            assert_eq!(found(&bytes, 0..border), whole, "{border}");
            assert_eq!(found(&bytes, border..400), whole, "{border}");
        }
        assert_eq!(found(&bytes, 0..100), []);
        assert_eq!(found(&bytes, 300..400), []);
    }
}

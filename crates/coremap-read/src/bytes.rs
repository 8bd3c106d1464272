//! Little-endian numbers and strings from byte slices. No function trusts a length: past the end it returns `None` and
//! never panics.

use byteorder::{ByteOrder, LittleEndian};

/// The `len` bytes at `off`. `None` if they are not all in the slice.
pub fn get(b: &[u8], off: usize, len: usize) -> Option<&[u8]> {
    b.get(off..off.checked_add(len)?)
}

/// The u16 at byte `off`.
pub fn u16_at(b: &[u8], off: usize) -> Option<u16> {
    get(b, off, 2).map(LittleEndian::read_u16)
}

/// The u32 at byte `off`.
pub fn u32_at(b: &[u8], off: usize) -> Option<u32> {
    get(b, off, 4).map(LittleEndian::read_u32)
}

/// The i32 at byte `off`.
pub fn i32_at(b: &[u8], off: usize) -> Option<i32> {
    get(b, off, 4).map(LittleEndian::read_i32)
}

/// The u64 at byte `off`.
pub fn u64_at(b: &[u8], off: usize) -> Option<u64> {
    get(b, off, 8).map(LittleEndian::read_u64)
}

/// The bytes before the first NUL, or all bytes if there is none.
pub fn until_nul(b: &[u8]) -> &[u8] {
    match memchr::memchr(0, b) {
        Some(n) => &b[..n],
        None => b,
    }
}

/// The text before the first NUL. Invalid UTF-8 becomes U+FFFD.
pub fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(b)).into_owned()
}

/// Whether a character could mislead a reader or a terminal.
///
/// Control characters (C0, C1, DEL) move the cursor. Bidirectional marks and line separators reorder or break a line.
/// Characters without a width (Unicode's Default_Ignorable_Code_Point, among them tag characters and variation
/// selectors) make different names look the same, or carry hidden text.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Makes text from a core safe for a terminal, a table or a log. [Harmful](is_harmful) characters become `\xNN` or
/// `\u{NNNN}`.
pub fn printable(s: &str) -> std::borrow::Cow<'_, str> {
    // Nearly all text is printable ASCII, which a scan of its bytes shows.
    if s.bytes().all(|b| (0x20..0x7f).contains(&b)) || !s.chars().any(is_harmful) {
        return s.into();
    }
    let mut out = String::with_capacity(s.len() + 8);
    for c in s.chars() {
        if is_harmful(c) {
            let n = u32::from(c);
            if n < 0x100 {
                out.push_str(&format!("\\x{n:02x}"));
            } else {
                out.push_str(&format!("\\u{{{n:x}}}"));
            }
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end() {
        assert_eq!(u32_at(&[1, 2, 3], 0), None);
        assert_eq!(u64_at(&[0; 8], usize::MAX), None);
        assert_eq!(u16_at(&[1, 2, 3], 1), Some(0x302));
    }

    #[test]
    fn control_characters_do_not_pass() {
        assert_eq!(printable("a\u{1b}[31mb\u{202e}"), "a\\x1b[31mb\\u{202e}");
        assert_eq!(printable("plain /path"), "plain /path");
        assert_eq!(printable("a\u{9b}2Jb\u{7f}"), "a\\x9b2Jb\\x7f");
    }

    #[test]
    fn what_nobody_sees_is_shown_and_letters_stay() {
        assert_eq!(printable("a\u{200b}b\u{feff}\u{2028}"), "a\\u{200b}b\\u{feff}\\u{2028}");
        // "hi" in tag characters, and a byte as a variation selector.
        assert_eq!(printable("x\u{e0068}\u{e0069}\u{e0123}"), "x\\u{e0068}\\u{e0069}\\u{e0123}");
        let text = "Größe über 日本語, עברית, لغة, हिन्दी, 😀";
        assert_eq!(printable(text), text);
    }
}

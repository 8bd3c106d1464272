//! Little-endian numbers and strings out of byte slices, none of which trust a
//! length: past the end there is `None`, never a panic.

use byteorder::{ByteOrder, LittleEndian};

/// The `len` bytes at `off`, if the slice holds them.
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

/// The bytes before the first NUL, or all of them.
pub fn until_nul(b: &[u8]) -> &[u8] {
    match memchr::memchr(0, b) {
        Some(n) => &b[..n],
        None => b,
    }
}

/// Text before the first NUL; what is not UTF-8 becomes U+FFFD.
pub fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(b)).into_owned()
}

/// Text from a core made safe for a terminal, a table or a log: control
/// characters (C0, C1, DEL) and the bidirectional overrides become `\xNN` or
/// `\u{NNNN}`, so they can neither move the cursor nor reorder a line.
pub fn printable(s: &str) -> std::borrow::Cow<'_, str> {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !s.chars().any(harmful) {
        return s.into();
    }
    let mut out = String::with_capacity(s.len() + 8);
    for c in s.chars() {
        if harmful(c) {
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
    }
}

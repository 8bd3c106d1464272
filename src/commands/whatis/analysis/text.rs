//! Detects text at the beginning of bytes.

/// Minimum number of characters.
const MIN_LEN: usize = 4;

/// End of the Latin letters. Without this limit, any two bytes would be a UTF-16 character.
const LATIN: char = '\u{250}';

/// Returns the text at the beginning of `bytes`: UTF-8, or Latin letters in UTF-16LE.
pub(super) fn beginning(bytes: &[u8]) -> Option<String> {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(bytes.get(..e.valid_up_to())?).ok()?,
    };
    let narrow: String = valid.chars().take_while(|c| !c.is_control()).collect();
    let units = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c));
    let latin = |c: &char| !c.is_control() && *c < LATIN;
    let wide: String = char::decode_utf16(units).map_while(Result::ok).take_while(latin).collect();
    let longer = if wide.chars().count() > narrow.chars().count() { wide } else { narrow };
    (longer.chars().count() >= MIN_LEN).then_some(longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_where_it_is_none_and_short_runs_are_none() {
        let text = |bytes: &[u8]| beginning(bytes);
        assert_eq!(text(b"hello\0there").as_deref(), Some("hello"));
        assert_eq!(text("gr\u{fc}n!\u{1}".as_bytes()).as_deref(), Some("gr\u{fc}n!"));
        assert_eq!(text(b"h\0e\0l\0l\0o\0\0\0").as_deref(), Some("hello"));
        assert_eq!(text(b"abc\0"), None);
        assert_eq!(text(b"\x10\x20\x30\x40\x50\x60\x70\x80"), None);
        assert_eq!(text(b"abcd\xff\xff").as_deref(), Some("abcd"));
        assert_eq!(text(b""), None);
    }
}

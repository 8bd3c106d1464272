//! Lines and numbers of text files below /proc.

/// The lines of a text without their line feeds, each with whether it had one. A file that was cut off may end
/// anywhere.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', rest) else { return Some((std::mem::take(&mut rest), false)) };
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        Some((line, true))
    })
}

/// Parses the number at the start of `text`, and returns the rest. `None` if there is no digit, or if the number
/// exceeds 64 bits.
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut digits = 0;
    for digit in text.iter().map_while(|&c| char::from(c).to_digit(10)) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    (digits > 0).then(|| (value, text.get(digits..).unwrap_or_default()))
}

/// Parses the hexadecimal number at the start of `text`, and returns the rest.
pub(super) fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut digits = 0;
    for digit in text.iter().map_while(|&c| char::from(c).to_digit(16)) {
        value = (value >> 60 == 0).then_some(value << 4 | u64::from(digit))?;
        digits += 1;
    }
    (digits > 0).then(|| (value, text.get(digits..).unwrap_or_default()))
}

/// Parses the value after a key, `   1528 kB`, into bytes. `None` if there is no such number, or if the line is cut
/// before its unit, so that digits may be missing.
#[inline]
pub(super) fn kib(text: &[u8]) -> Option<u64> {
    let (value, rest) = number(text.trim_ascii_start())?;
    (rest == b" kB").then(|| value.checked_mul(1024)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(kib(b"       1528 kB"), Some(1528 << 10));
        assert_eq!(kib(b"\t0 kB"), Some(0));
        for cut in ["", "   ", " 15", " 1528", " 1528 k", " -1 kB", " 99999999999999999999 kB", " 18014398509481985 kB"]
        {
            assert_eq!(kib(cut.as_bytes()), None, "{cut}");
        }
        assert_eq!(hex(b"7fffc1ed8000-7f"), Some((0x7fff_c1ed_8000, b"-7f".as_slice())));
        assert_eq!(hex(b"10000000000000000"), None);
        assert_eq!(hex(b"ffffffffffffffff "), Some((u64::MAX, b" ".as_slice())));
        assert_eq!(hex(b"-"), None);
    }

    #[test]
    fn the_last_line_may_be_cut() {
        let parsed: Vec<_> = lines(b"a\n\nb").collect();
        assert_eq!(parsed, [(b"a".as_slice(), true), (b"", true), (b"b", false)]);
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(lines(b"a\n").count(), 1);
    }
}

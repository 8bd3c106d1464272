//! Scans small elements of text: numbers, line ends, brackets.

/// Parses a hexadecimal number of 1 to 16 digits at `at`. Returns its value and its end.
/// `None` if more digits or letters follow.
pub(super) fn hex(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let digits = text.get(at..)?;
    let len = digits.iter().take(17).take_while(|b| b.is_ascii_hexdigit()).count();
    if len == 0 || len > 16 || digits.get(len).is_some_and(|&b| is_word(b)) {
        return None;
    }
    let value = digits.iter().take(len).fold(0u64, |v, &b| v << 4 | u64::from((b as char).to_digit(16).unwrap_or(0)));
    Some((value, at + len))
}

/// Parses `0x` and a hexadecimal number at `at`.
pub(super) fn hex0x(text: &[u8], at: usize) -> Option<(u64, usize)> {
    match text.get(at..at.checked_add(2)?)? {
        b"0x" | b"0X" => hex(text, at + 2),
        _ => None,
    }
}

/// Parses a decimal number at `at`. Returns its value and its end.
pub(super) fn decimal(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let digits = text.get(at..)?;
    let len = digits.iter().take(20).take_while(|b| b.is_ascii_digit()).count();
    let value = std::str::from_utf8(digits.get(..len)?).ok()?.parse().ok()?;
    Some((value, at + len))
}

/// Whether `b` can be part of a word.
pub(super) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Returns the offset of the first non-blank from `at` on.
pub(super) fn skip_blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Returns the offset of the opening bracket that matches the last byte of `text`.
pub(super) fn opening(text: &[u8]) -> Option<usize> {
    if text.last() != Some(&b')') {
        return None;
    }
    let mut depth = 0usize;
    for at in memchr::memrchr2_iter(b'(', b')', text) {
        if text.get(at) == Some(&b')') {
            depth += 1;
        } else {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Removes `+0x12` from a symbol.
pub(super) fn without_offset(symbol: &[u8]) -> &[u8] {
    match memchr::memmem::rfind(symbol, b"+0x") {
        Some(at) if hex(symbol, at + 3).is_some_and(|(_, end)| end == symbol.len()) => {
            symbol.get(..at).unwrap_or(symbol)
        }
        _ => symbol,
    }
}

/// Returns the last part of a path.
pub(super) fn file_name(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    match memchr::memrchr(b'/', path) {
        Some(at) => path.get(at + 1..).unwrap_or(path),
        None => path,
    }
}

/// Splits a line from its end, `\n` or `\r\n`.
pub(super) fn split_end(line: &[u8]) -> (&[u8], &[u8]) {
    let len = match line {
        [.., b'\r', b'\n'] => line.len() - 2,
        [.., b'\n'] => line.len() - 1,
        _ => line.len(),
    };
    line.split_at_checked(len).unwrap_or((line, b""))
}

//! Finds the tokens of names in every encoding. A token consists of ASCII letters, digits and underscores, and of all
//! characters beyond ASCII.

use crate::targets::reads::Script;

/// A token among bytes.
pub(super) struct Span {
    /// Offset of its first byte.
    pub(super) from: usize,
    /// Text of the token.
    pub(super) token: String,
}

/// Whether a character is part of a token.
pub(super) fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// Whether a byte of UTF-8 is part of a token.
pub(super) fn is_part_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Bytes per unit.
fn width(script: Script) -> usize {
    match script {
        Script::Units(width) => usize::from(width.max(1)),
        _ => 1,
    }
}

/// Returns the tokens of `bytes`.
pub(super) fn tokens(bytes: &[u8], script: Script) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    let mut open = false;
    each_char(bytes, script, |at, c| {
        if !is_part(c) {
            open = false;
            return;
        }
        match out.last_mut().filter(|_| open) {
            Some(span) => span.token.push(c),
            None => out.push(Span { from: at, token: c.into() }),
        }
        open = true;
    });
    out
}

/// Visits the characters of a text, each with its offset.
fn each_char(bytes: &[u8], script: Script, mut visit: impl FnMut(usize, char)) {
    let width = width(script);
    if let (1, false) = (width, matches!(script, Script::Units(_))) {
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            for (i, c) in chunk.valid().char_indices() {
                visit(at + i, c);
            }
            at += chunk.valid().len();
            // Bytes that are no UTF-8 count as one character each, so the length stays.
            for (i, &b) in chunk.invalid().iter().enumerate() {
                visit(at + i, char::from(b));
            }
            at += chunk.invalid().len();
        }
        return;
    }
    let units =
        bytes.chunks_exact(width).map(|unit| unit.iter().rev().fold(0u32, |value, b| value << 8 | u32::from(*b)));
    if width == 2 {
        let mut at = 0;
        for c in char::decode_utf16(units.map(|unit| unit as u16)) {
            let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
            visit(at, c);
            at += 2 * c.len_utf16();
        }
        return;
    }
    units
        .enumerate()
        .for_each(|(i, unit)| visit(i * width, char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)));
}

/// Encodes `new` for the token at the start of `old`, with the same length. `None` if it is longer than `old`.
pub(super) fn encode(new: &str, old: &[u8], script: Script) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match script {
        Script::Units(2) => out.extend(new.encode_utf16().flat_map(u16::to_le_bytes)),
        Script::Units(width) => {
            let bytes = |c: char| (c as u32).to_le_bytes().into_iter().take(usize::from(width));
            new.chars().for_each(|c| out.extend(bytes(c)));
        }
        _ => {
            let mut at = 0;
            for c in new.chars() {
                let mut buffer = [0; 4];
                let utf8 = c.encode_utf8(&mut buffer).as_bytes();
                let is_utf8 = old.get(at..at + utf8.len()).is_some_and(|old| std::str::from_utf8(old).is_ok());
                // A byte that was no UTF-8 stays one byte.
                match u8::try_from(c as u32).ok().filter(|_| !is_utf8) {
                    Some(byte) => out.push(byte),
                    None => out.extend(utf8),
                }
                at = out.len();
            }
        }
    }
    (out.len() <= old.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &[u8], script: Script) -> Vec<(usize, String)> {
        tokens(bytes, script).into_iter().map(|span| (span.from, span.token)).collect()
    }

    #[test]
    fn tokens_are_found_in_every_script() {
        let wanted =
            |step: usize| [(0, "Acme"), (5 * step, "Bill_1"), (13 * step, "é")].map(|(at, text)| (at, text.to_owned()));
        let text = "Acme.Bill_1[`é]";
        assert_eq!(said(text.as_bytes(), Script::Utf8), wanted(1));
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(said(&wide, Script::Units(2)), wanted(2));
        let widest: Vec<u8> = text.chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
        assert_eq!(said(&widest, Script::Units(4)), wanted(4));
        assert_eq!(encode("Qzvk", &wide, Script::Units(2)), Some(b"Q\0z\0v\0k\0".to_vec()));
        assert_eq!(said(b"a\xff.b", Script::Utf8), [(0, "a\u{ff}".to_owned()), (3, "b".to_owned())]);
        assert_eq!(encode("b\u{fe}", b"a\xff.b", Script::Utf8), Some(b"b\xfe".to_vec()));
    }
}

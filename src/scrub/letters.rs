//! Decides whether a word is text.

/// Minimum number of consecutive printable characters that make a word, read as a structure, a text. Shorter runs
/// occur by chance.
const LETTERS: usize = 6;

/// Minimum number of two-byte printable characters in such a word.
const WIDE_LETTERS: usize = 3;

/// Whether a byte is printable ASCII.
pub(super) fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Whether a word is the end of a text: a few letters, followed by zeros.
pub(super) fn is_readable(word: [u8; 8]) -> bool {
    let letters = word.iter().take_while(|b| is_printable(**b)).count();
    let narrow = letters > 1 && word.iter().skip(letters).all(|&b| b == 0);
    let wide = word.as_chunks::<2>().0.iter().take_while(|unit| is_printable(unit[0]) && unit[1] == 0).count();
    narrow || wide > 1 && word.iter().skip(2 * wide).all(|&b| b == 0)
}

/// Classification of a word by its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// The word is text.
    Text,
    /// The word begins like text. If the previous word is text, this is the end of it.
    End,
    /// Something else.
    Other,
}

/// Classifies the bytes of a word that are in `mask`.
pub(super) fn reads(word: [u8; 8], mask: u8) -> Reads {
    let asked = |i: usize| mask >> i & 1 != 0;
    let letter = |i: usize| asked(i) && word.get(i).copied().is_some_and(is_printable);
    let (mut row, mut most) = (0, 0);
    for i in 0..8 {
        row = if letter(i) { row + 1 } else { 0 };
        most = most.max(row);
    }
    let wide = |i: &usize| letter(2 * i) && word.get(2 * i + 1) == Some(&0);
    if most >= LETTERS || (0..4).filter(wide).count() >= WIDE_LETTERS {
        Reads::Text
    } else if letter(0) {
        Reads::End
    } else {
        Reads::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_zeros_are_the_end_of_a_text() {
        assert!(is_readable(*b"ab\0\0\0\0\0\0") && is_readable(*b"a\0b\0\0\0\0\0") && is_readable(*b"password"));
        assert!(!is_readable(*b"a\0\0\0\0\0\0\0") && !is_readable(*b"ab\0\0c\0\0\0") && !is_readable([0; 8]));
    }

    #[test]
    fn six_letters_in_a_row_are_a_text() {
        assert_eq!(reads(*b"\x01hunter\x02", u8::MAX), Reads::Text);
        assert_eq!(reads(*b"\x01hunter\x02", 0b1110_1111), Reads::Other);
        assert_eq!(reads(*b"a\0b\0c\0\x05\x06", u8::MAX), Reads::Text);
        assert_eq!(reads(*b"end\0\x01\0\0\0", u8::MAX), Reads::End);
        assert_eq!(reads([1; 8], u8::MAX), Reads::Other);
    }
}

//! Parses bytes with wildcards: `de ad ?? be`, `0xde 0xad`, `4d5?`.

use crate::search::error::PatternError;

/// Bytes to compare, with a mask of the bits that count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Masked {
    /// Bytes. Bits that don't count are zero.
    pub(super) value: Vec<u8>,
    /// Mask: 1 for each bit that counts.
    pub(super) mask: Vec<u8>,
}

impl Masked {
    /// Creates a pattern without wildcards.
    pub(super) fn exact(bytes: Vec<u8>) -> Masked {
        Masked { mask: vec![0xff; bytes.len()], value: bytes }
    }

    /// Whether `bytes`, of the same length, match.
    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        bytes.iter().zip(&self.mask).zip(&self.value).all(|((b, m), v)| b & m == *v)
    }
}

/// Parses `text`: two characters a byte, `?` for any nibble, white space between bytes, `0x`
/// before a byte. Bytes are in the order written. `0xdeadbeef` is refused, because it may be a
/// number instead.
pub(super) fn parse(text: &str) -> Result<Masked, PatternError> {
    let digits = |group: &'_ str| group.strip_prefix("0x").or_else(|| group.strip_prefix("0X")).map(str::to_owned);
    let number = |digits: &String| digits.len() > 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = text.split_whitespace().filter_map(digits).find(number) {
        return Err(PatternError::NumberOrBytes(digits, apart(text)));
    }
    let mut out = Masked { value: Vec::new(), mask: Vec::new() };
    let mut chars = text.chars().enumerate().peekable();
    let mut fresh = true;
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() {
            fresh = true;
            continue;
        }
        if fresh && c == '0' && chars.next_if(|(_, x)| matches!(x, 'x' | 'X')).is_some() {
            fresh = false;
            continue;
        }
        fresh = false;
        let (high, high_mask) = nibble(at, c)?;
        let Some((at, c)) = chars.next_if(|(_, c)| !c.is_whitespace()) else {
            return Err(PatternError::HalfByte { column: at + 1, found: c });
        };
        let (low, low_mask) = nibble(at, c)?;
        out.value.push(high << 4 | low);
        out.mask.push(high_mask << 4 | low_mask);
    }
    if out.value.is_empty() {
        return Err(PatternError::Empty);
    }
    if out.mask.iter().all(|&m| m == 0) {
        return Err(PatternError::OnlyWildcards);
    }
    Ok(out)
}

/// Returns the same bytes, separated by spaces.
fn apart(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for group in text.split_whitespace() {
        let digits: Vec<char> = group.trim_start_matches("0x").trim_start_matches("0X").chars().collect();
        out.extend(digits.chunks(2).map(|byte| byte.iter().collect()));
    }
    format!("'{}'", out.join(" "))
}

fn nibble(at: usize, c: char) -> Result<(u8, u8), PatternError> {
    if c == '?' {
        return Ok((0, 0));
    }
    match c.to_digit(16) {
        Some(digit) => Ok((digit as u8, 0xf)),
        None => Err(PatternError::HexDigit { column: at + 1, found: c }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_write_bytes_mean_the_same() -> Result<(), PatternError> {
        let want = Masked::exact(vec![0xde, 0xad, 0xbe, 0xef]);
        for text in ["deadbeef", "de ad be ef", "0xDE 0xAD 0xbe 0xef", "0xde 0xad  beef", " dead\tbeef "] {
            assert_eq!(parse(text)?, want, "{text}");
        }
        let masked = parse("de ?? b? ?f")?;
        assert_eq!(masked.value, [0xde, 0, 0xb0, 0x0f]);
        assert_eq!(masked.mask, [0xff, 0, 0xf0, 0x0f]);
        assert!(masked.matches(&[0xde, 7, 0xb9, 0x9f]));
        assert!(!masked.matches(&[0xde, 7, 0xc9, 0x9f]));
        Ok(())
    }

    #[test]
    fn errors_name_the_column() {
        let message = |text| parse(text).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message("de xd").contains("column 4"), "{}", message("de xd"));
        assert!(message("de a be").contains("column 4"), "{}", message("de a be"));
        assert!(message("dead b").contains("column 6"), "{}", message("dead b"));
        assert!(message("éa").contains("column 1"));
        assert!(message("0x").contains("empty"));
        let asked = message("0xdeadbeef");
        assert!(asked.contains("--pointer 0xdeadbeef") && asked.contains("write 'de ad be ef'"), "{asked}");
        assert!(message("4d 0x5a5b").contains("write '4d 5a 5b'"));
        assert!(message("?? ??").contains("wildcards"));
    }
}

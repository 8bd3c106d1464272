//! One page: what its bytes are.

use std::fmt;

/// What fills a page, or pages that lie side by side. The first that holds, in this order; each is
/// told by the bytes alone, so that all but the first three are likely, not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Zeros: never written, or cleared.
    Zero,
    /// One byte value, not 0.
    Byte(u8),
    /// One 8-byte word over and over, whose bytes differ.
    Word(u64),
    /// Text of one byte a letter, or UTF-8.
    Utf8,
    /// Text of two bytes a letter, as .NET, Java and Windows keep it.
    Utf16,
    /// Bits or flags: nearly all bytes are 0x00 or 0xff.
    Bitmap,
    /// Addresses of mapped memory, in one word of four or more: nodes, tables, objects.
    Pointers,
    /// Numbers with a fraction, 8 or 4 bytes each.
    Float,
    /// All byte values equally often: compressed, encrypted or random.
    Random,
    /// None of these.
    Mixed,
}

/// What is an address in the process, for [`Content::of_page`].
pub trait Words: Sync {
    /// Whether `word` is an address in mapped memory.
    fn is_address(&self, word: u64) -> bool;
}

impl<F: Fn(u64) -> bool + Sync> Words for F {
    fn is_address(&self, word: u64) -> bool {
        self(word)
    }
}

/// Percent of bytes that must be letters for a page to be text: the rest are ends of strings, lengths, padding.
const TEXT: usize = 75;

/// Percent of words that must be addresses. Tables of structures have one in three or four words.
const POINTERS: usize = 25;

/// Percent of words, other than 0, that must be plausible as numbers with a fraction.
const FLOATS: usize = 90;

/// Percent of bytes that must be 0x00 or 0xff in a bitmap, and that must be 0xff.
const FLAGS: usize = 97;
const SET: usize = 3;

/// Exponents of two that numbers with a fraction have in practice: from a trillionth to a trillion.
const EXPONENTS: i32 = 40;

/// Values of a byte.
const VALUES: usize = 256;

/// How far from even the counts of byte values may be in random bytes: the sum of squared
/// differences over what is expected (chi-squared). It has 255 degrees of freedom, so it is 255 ± 23 in
/// random bytes; x86 code, text and structures have thousands.
const EVEN: f64 = 400.0;

/// A length below which no page is called random.
const FEWEST: usize = 2048;

impl Content {
    /// What fills `page`, of whole words; a part of a page may be given at the end of a mapping.
    pub fn of_page(page: &[u8], words: &dyn Words) -> Content {
        let (all, _) = page.as_chunks::<8>();
        let Some(first) = all.first() else { return Content::of_few(page) };
        if all.iter().all(|word| word == first) {
            return Content::of_word(*first);
        }
        let counts = counts(page);
        if let Some(text) = text(page, &counts) {
            return text;
        }
        let (zeros, set) = (usize::from(counts[0]), usize::from(counts[0xff]));
        if percent(zeros + set, page.len()) >= FLAGS && percent(set, page.len()) >= SET {
            return Content::Bitmap;
        }
        let values = all.iter().map(|word| u64::from_le_bytes(*word));
        if percent(values.filter(|&word| word != 0 && words.is_address(word)).count(), all.len()) >= POINTERS {
            return Content::Pointers;
        }
        if page.len() >= FEWEST && is_even(&counts, page.len()) {
            return Content::Random;
        }
        if has_fractions(all) || has_short_fractions(page.as_chunks::<4>().0) {
            return Content::Float;
        }
        Content::Mixed
    }

    fn of_word(word: [u8; 8]) -> Content {
        match word {
            [0, ..] if word == [0; 8] => Content::Zero,
            [byte, ..] if word == [byte; 8] => Content::Byte(byte),
            _ => Content::Word(u64::from_le_bytes(word)),
        }
    }

    fn of_few(page: &[u8]) -> Content {
        match page.first() {
            None | Some(0) => Content::Zero,
            Some(_) => Content::Mixed,
        }
    }

    /// In a word, the same for all that fill alike but with other bytes.
    pub fn name(self) -> &'static str {
        match self {
            Content::Zero => "zero",
            Content::Byte(_) => "one byte value",
            Content::Word(_) => "one repeated word",
            Content::Utf8 => "text",
            Content::Utf16 => "UTF-16 text",
            Content::Bitmap => "bitmap",
            Content::Pointers => "pointers",
            Content::Float => "floating point",
            Content::Random => "compressed or random",
            Content::Mixed => "mixed",
        }
    }

    /// Whether all bytes of it are known by this alone.
    pub fn is_fill(self) -> bool {
        matches!(self, Content::Zero | Content::Byte(_) | Content::Word(_))
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Byte(byte) => write!(f, "one byte value, {byte:#04x}"),
            Content::Word(word) => write!(f, "one repeated word, {word:#x}"),
            other => f.write_str(other.name()),
        }
    }
}

fn percent(n: usize, of: usize) -> usize {
    (n * 100).checked_div(of).unwrap_or(0)
}

/// How often each byte value is there. Four tables: one byte after the other of the same value would
/// wait for each other's count.
fn counts(page: &[u8]) -> [u16; VALUES] {
    let mut tables = [[0u16; VALUES]; 4];
    let (quads, rest) = page.as_chunks::<4>();
    for quad in quads {
        for (table, &byte) in tables.iter_mut().zip(quad) {
            table[usize::from(byte)] = table[usize::from(byte)].wrapping_add(1);
        }
    }
    let [mut sum, more @ ..] = tables;
    for &byte in rest {
        sum[usize::from(byte)] = sum[usize::from(byte)].wrapping_add(1);
    }
    for table in more {
        sum.iter_mut().zip(table).for_each(|(sum, n)| *sum = sum.wrapping_add(n));
    }
    sum
}

/// Whether a byte is a letter, digit, sign, or ends a line.
fn is_letter(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')
}

fn text(page: &[u8], counts: &[u16; VALUES]) -> Option<Content> {
    let of = |bytes: &mut dyn Iterator<Item = u8>| bytes.map(|b| usize::from(counts[usize::from(b)])).sum::<usize>();
    let letters = of(&mut (0..=u8::MAX).filter(|b| is_letter(*b)));
    let high = of(&mut (0x80..=u8::MAX));
    if percent(letters, page.len()) >= TEXT {
        return Some(Content::Utf8);
    }
    // Letters beyond ASCII have two bytes or more, none of which is a letter by itself.
    if percent(letters + high, page.len()) >= TEXT && high > 0 && percent(in_utf8(page), page.len()) >= TEXT {
        return Some(Content::Utf8);
    }
    let zeros = usize::from(counts[0]);
    if percent(letters * 2, page.len()) >= TEXT && percent(zeros, page.len()) >= TEXT / 2 {
        let wide = page.as_chunks::<2>().0.iter().filter(|pair| matches!(pair, [b, 0] if is_letter(*b))).count();
        return (percent(wide * 2, page.len()) >= TEXT).then_some(Content::Utf16);
    }
    None
}

/// Bytes of `page` that are letters in UTF-8.
fn in_utf8(page: &[u8]) -> usize {
    let letters = |text: &str| {
        text.chars().filter(|c| !c.is_control() || c.is_ascii_whitespace()).map(char::len_utf8).sum::<usize>()
    };
    page.utf8_chunks().map(|chunk| letters(chunk.valid())).sum()
}

fn is_even(counts: &[u16; VALUES], bytes: usize) -> bool {
    let expected = bytes as f64 / VALUES as f64;
    let off = |n: &u16| (f64::from(*n) - expected).powi(2) / expected;
    counts.iter().map(off).sum::<f64>() < EVEN
}

/// Whether the words of a page are doubles: of a plausible exponent, and not all whole numbers that happen to
/// look like one.
fn has_fractions(words: &[[u8; 8]]) -> bool {
    let exponent = |word: &[u8; 8]| i32::from(u16::from_le_bytes([word[6], word[7]]) >> 4 & 0x7ff) - 0x3ff;
    plausible(words.iter().filter(|word| **word != [0; 8]).map(exponent), words.len())
}

/// The same of floats of 4 bytes.
fn has_short_fractions(words: &[[u8; 4]]) -> bool {
    let exponent = |word: &[u8; 4]| i32::from(u16::from_le_bytes([word[2], word[3]]) >> 7 & 0xff) - 0x7f;
    plausible(words.iter().filter(|word| **word != [0; 4]).map(exponent), words.len())
}

/// Whether nearly all exponents are plausible, and there are enough words with one.
fn plausible(exponents: impl Iterator<Item = i32>, words: usize) -> bool {
    let (mut all, mut fit) = (0, 0);
    for exponent in exponents {
        all += 1;
        fit += usize::from((-EXPONENTS..=EXPONENTS).contains(&exponent));
    }
    percent(all, words) >= POINTERS && percent(fit, all) >= FLOATS
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn(u64) -> bool = |_| false;

    fn of(bytes: impl IntoIterator<Item = u8>) -> Content {
        let page: Vec<u8> = bytes.into_iter().take(4096).collect();
        assert_eq!(page.len(), 4096);
        Content::of_page(&page, &NONE)
    }

    /// Numbers that look random, the same each time (xorshift).
    fn random() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x2545_f491_4f6c_dd1du64), |&x| {
            let x = x ^ (x << 13);
            let x = x ^ (x >> 7);
            Some(x ^ (x << 17))
        })
    }

    #[test]
    fn what_is_filled_is_told_with_what() {
        assert_eq!(of([0; 4096]), Content::Zero);
        assert_eq!(of([0x16; 4096]), Content::Byte(0x16));
        assert_eq!(of([1, 2, 3, 4, 5, 6, 7, 8].into_iter().cycle()), Content::Word(0x0807_0605_0403_0201));
        let mut almost = [0x16; 4096];
        almost[4095] = 0x17;
        assert_eq!(of(almost), Content::Mixed);
    }

    #[test]
    fn text_is_told_in_its_encodings() {
        let english = "The quick brown fox jumps over the lazy dog.\n";
        assert_eq!(of(english.bytes().cycle()), Content::Utf8);
        assert_eq!(of("Съешь ещё этих мягких булок. ".bytes().cycle()), Content::Utf8);
        assert_eq!(of("敏捷的棕色狐狸跳过懒狗。".bytes().cycle()), Content::Utf8);
        assert_eq!(of(english.encode_utf16().flat_map(u16::to_le_bytes).cycle()), Content::Utf16);
    }

    #[test]
    fn numbers_with_a_fraction_are_none_that_count() {
        assert_eq!(of((1..).flat_map(|n| (f64::from(n) * 0.37).sin().to_le_bytes())), Content::Float);
        assert_eq!(of((1u16..).flat_map(|n| (f32::from(n) * 0.37).to_le_bytes())), Content::Float);
        assert_eq!(of((1u64..).flat_map(u64::to_le_bytes)), Content::Mixed);
        assert_eq!(of((1u32..).flat_map(u32::to_le_bytes)), Content::Mixed);
    }

    #[test]
    fn random_bytes_and_flags() {
        assert_eq!(of(random().flat_map(u64::to_le_bytes)), Content::Random);
        assert_eq!(of(random().map(|n| if n % 5 == 0 { 0xff } else { 0 })), Content::Bitmap);
        // Zeros with little else are no bitmap.
        assert_eq!(of(random().map(|n| if n % 50 == 0 { 1 } else { 0 })), Content::Mixed);
    }

    #[test]
    fn pointers_are_what_is_mapped() {
        let mapped = |word: u64| (0x7f00_0000_0000..0x7f00_1000_0000).contains(&word);
        let nodes = (0..).flat_map(|n: u64| [0x7f00_0000_1000 + n * 64, n, 3, 0]);
        let page: Vec<u8> = nodes.flat_map(u64::to_le_bytes).take(4096).collect();
        assert_eq!(Content::of_page(&page, &mapped), Content::Pointers);
        assert_eq!(Content::of_page(&page, &NONE), Content::Mixed);
    }

    #[test]
    fn less_than_a_word_is_no_error() {
        assert_eq!(Content::of_page(&[], &NONE), Content::Zero);
        assert_eq!(Content::of_page(&[1, 2, 3], &NONE), Content::Mixed);
    }
}

//! One page: what its bytes are.

use std::fmt;

use crate::memory::OVERWRITTEN;
use crate::memory::content::leads::{Lead, Leads, Words};
use crate::words::BlockContent;

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
    /// What stands for values in a core that was scrubbed: half or more of what is not zero.
    Overwritten,
    /// Text of one byte a letter, or UTF-8.
    Utf8,
    /// Text of two bytes a letter, as .NET, Java and Windows keep it.
    Utf16,
    /// Nearly all zeros, and here and there a word: tables and buffers that are hardly used.
    Sparse,
    /// Bits or flags: nearly all bytes are 0x00 or 0xff.
    Bitmap,
    /// Addresses of mapped memory, in one word of four or more: nodes, tables, objects. With what most of them lead
    /// into; `None` where they lead to several.
    Pointers(Option<Lead>),
    /// Numbers with a fraction, 8 or 4 bytes each.
    Float,
    /// Structures: some addresses, and beside them small numbers and zeros.
    Structures,
    /// All byte values equally often: compressed, encrypted or random.
    Random,
    /// None of these.
    Mixed,
}

/// Percent of bytes that must be letters for a page to be text: the rest are ends of strings, lengths, padding.
const TEXT: usize = 75;

/// Percent of words that must be addresses. Tables of structures have one in three or four words.
const POINTERS: usize = 25;

/// Percent of words that must be zero in what is hardly used.
const EMPTY: usize = 90;

/// Percent of words that must be addresses among structures, and that must be addresses, zero or small numbers.
const SOME_POINTERS: usize = 4;
const SMALL_WORDS: usize = 60;

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
        if all.contains(&OVERWRITTEN.to_le_bytes()) && is_overwritten(all) {
            return Content::Overwritten;
        }
        let counts = counts(page);
        if let Some(text) = text(page, &counts) {
            return text;
        }
        let (zeros, set) = (usize::from(counts[0]), usize::from(counts[0xff]));
        if percent(zeros + set, page.len()) >= FLAGS && percent(set, page.len()) >= SET {
            return Content::Bitmap;
        }
        let (mut empty, mut small) = (0, 0);
        let mut leads = Leads::default();
        for word in all.iter().map(|word| u64::from_le_bytes(*word)) {
            match word {
                0 => empty += 1,
                word => match words.lead(word) {
                    Some(lead) => leads.add(lead),
                    None => small += usize::from(word <= u64::from(u32::MAX)),
                },
            }
        }
        let addresses = leads.all;
        if percent(addresses, all.len()) >= POINTERS {
            return Content::Pointers(leads.most());
        }
        if percent(empty, all.len()) >= EMPTY {
            return Content::Sparse;
        }
        if page.len() >= FEWEST && is_even(&counts, page.len()) {
            return Content::Random;
        }
        if has_fractions(all) || has_short_fractions(page.as_chunks::<4>().0) {
            return Content::Float;
        }
        if percent(addresses, all.len()) >= SOME_POINTERS
            && percent(empty + addresses + small, all.len()) >= SMALL_WORDS
        {
            return Content::Structures;
        }
        Content::Mixed
    }

    fn of_word(word: [u8; 8]) -> Content {
        match word {
            [0, ..] if word == [0; 8] => Content::Zero,
            [byte, ..] if word == [byte; 8] => Content::Byte(byte),
            _ if u64::from_le_bytes(word) == OVERWRITTEN => Content::Overwritten,
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
            Content::Overwritten => "overwritten values",
            Content::Utf8 => "text",
            Content::Utf16 => "UTF-16 text",
            Content::Sparse => "nearly all zero",
            Content::Bitmap => "bitmap",
            Content::Pointers(_) => "pointers",
            Content::Float => "floating point",
            Content::Structures => "structures with pointers",
            Content::Random => "compressed or random",
            Content::Mixed => "mixed",
        }
    }

    /// The word for it in answers.
    pub fn word(self) -> BlockContent {
        match self {
            Content::Zero => BlockContent::Zero,
            Content::Byte(_) => BlockContent::Fill,
            Content::Word(_) => BlockContent::Word,
            Content::Overwritten => BlockContent::Overwritten,
            Content::Utf8 | Content::Utf16 => BlockContent::Text,
            Content::Sparse => BlockContent::Sparse,
            Content::Bitmap => BlockContent::Bitmap,
            Content::Pointers(_) => BlockContent::Pointers,
            Content::Float => BlockContent::Float,
            Content::Structures => BlockContent::Structures,
            Content::Random => BlockContent::Random,
            Content::Mixed => BlockContent::Data,
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

/// Whether half or more of the words that are not zero are what stands for values that went.
fn is_overwritten(words: &[[u8; 8]]) -> bool {
    let overwritten = words.iter().filter(|word| **word == OVERWRITTEN.to_le_bytes()).count();
    let written = words.iter().filter(|word| **word != [0; 8]).count();
    2 * overwritten >= written
}

pub(super) fn percent(n: usize, of: usize) -> usize {
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
#[path = "page_tests.rs"]
mod tests;

//! Classifies one page by its bytes.

use std::fmt;

use crate::memory::OVERWRITTEN;
use crate::memory::content::destinations::{AddressClassifier, DestinationCounts, DestinationId};
use crate::words::BlockContent;

/// Contents of a page, or of adjacent pages. The first variant that applies, in this order. Only the page's bytes are
/// evidence, so all but the first three are likely, not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// Zeros: never written, or cleared.
    Zero,
    /// One byte value, other than 0.
    Byte(u8),
    /// One repeated 8-byte word whose bytes differ.
    Word(u64),
    /// Values that `shrink --scrub` overwrote: at least half of the words that are not zero.
    Overwritten,
    /// Text with one byte a character, or UTF-8.
    Utf8,
    /// Text with two bytes a character, as in .NET, Java and Windows.
    Utf16,
    /// Nearly all zeros, with a few words between them: tables and buffers that are hardly used.
    Sparse,
    /// Bits or flags: nearly all bytes are 0x00 or 0xff.
    Bitmap,
    /// Addresses of mapped memory, in at least one of four words: nodes, tables, objects. With the destination of most
    /// of them, or `None` if there are several.
    Pointers(Option<DestinationId>),
    /// Floating-point numbers of 8 or 4 bytes.
    Float,
    /// Structures: some addresses among small numbers and zeros.
    Structures,
    /// All byte values, and all differences of neighbours, about equally often: compressed, encrypted or random.
    Random,
    /// None of these.
    Mixed,
}

/// Minimum percentage of printable bytes in a page of text. The rest are terminators, lengths and padding.
const TEXT: usize = 75;

/// Minimum percentage of words that are addresses. Tables of structures have one in three or four words.
const POINTERS: usize = 25;

/// Minimum percentage of zero words in a sparse page.
const EMPTY: usize = 90;

/// Minimum percentages of words in a page of structures: addresses, and addresses, zeros or small numbers.
const SOME_POINTERS: usize = 4;
const SMALL_WORDS: usize = 60;

/// Minimum percentage of non-zero words that are plausible floating-point numbers.
const FLOATS: usize = 90;

/// Minimum percentages of bytes in a bitmap: of bytes that are 0x00 or 0xff, and of bytes that are 0xff.
const FLAGS: usize = 97;
const SET: usize = 3;

/// Largest binary exponent of plausible floating-point numbers: from a trillionth to a trillion.
const EXPONENTS: i32 = 40;

/// Number of values of a byte.
const VALUES: usize = 256;

/// Minimum and maximum chi-squared statistic of the byte counts of a random page: the sum of squared differences over
/// the expected count. With 255 degrees of freedom it is 255 ± 23 for random bytes, and six standard deviations are
/// allowed. x86 code, text and structures have thousands. Counters and ramps have nearly 0.
const MIN_CHI_SQUARED: f64 = 120.0;
const MAX_CHI_SQUARED: f64 = 400.0;

/// Minimum length in bytes of a page that can be called random.
const MIN_RANDOM_LEN: usize = 2048;

impl Content {
    /// Classifies `page`, which consists of whole words. The last page of a mapping may be incomplete.
    pub fn of_page(page: &[u8], words: &dyn AddressClassifier) -> Content {
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
        let mut destinations = DestinationCounts::default();
        for word in all.iter().map(|word| u64::from_le_bytes(*word)) {
            match word {
                0 => empty += 1,
                word => match words.destination(word) {
                    Some(destination) => destinations.add(destination),
                    None => small += usize::from(word <= u64::from(u32::MAX)),
                },
            }
        }
        let addresses = destinations.all;
        if percent(addresses, all.len()) >= POINTERS {
            return Content::Pointers(destinations.majority());
        }
        if percent(empty, all.len()) >= EMPTY {
            return Content::Sparse;
        }
        if page.len() >= MIN_RANDOM_LEN && is_random(&counts, page.len()) && has_random_steps(page) {
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

    /// Returns the kind of content as text, without its byte value, word or destination.
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

    /// Returns the content's word in answers.
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

    /// Whether the content determines every byte of the page.
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

/// Whether at least half of the non-zero words are the value that replaces scrubbed ones.
fn is_overwritten(words: &[[u8; 8]]) -> bool {
    let overwritten = words.iter().filter(|word| **word == OVERWRITTEN.to_le_bytes()).count();
    let written = words.iter().filter(|word| **word != [0; 8]).count();
    2 * overwritten >= written
}

pub(super) fn percent(n: usize, of: usize) -> usize {
    (n * 100).checked_div(of).unwrap_or(0)
}

/// Counts the occurrences of each byte value. Uses four tables: with one, a run of equal bytes would wait for each
/// previous increment.
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

/// Whether a byte is printable ASCII, a tab or the end of a line.
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
    // Characters beyond ASCII have two or more bytes, none of which is printable by itself.
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

/// Number of bytes of `page` that are printable characters in UTF-8.
fn in_utf8(page: &[u8]) -> usize {
    let letters = |text: &str| {
        text.chars().filter(|c| !c.is_control() || c.is_ascii_whitespace()).map(char::len_utf8).sum::<usize>()
    };
    page.utf8_chunks().map(|chunk| letters(chunk.valid())).sum::<usize>()
}

/// Whether random bytes could have these counts.
fn is_random(counts: &[u16; VALUES], bytes: usize) -> bool {
    let expected = bytes as f64 / VALUES as f64;
    let off = |n: &u16| (f64::from(*n) - expected).powi(2) / expected;
    (MIN_CHI_SQUARED..MAX_CHI_SQUARED).contains(&counts.iter().map(off).sum::<f64>())
}

/// Whether the differences of neighbouring bytes could be random. Those of ramps and waves are not.
fn has_random_steps(page: &[u8]) -> bool {
    let mut steps = [0u16; VALUES];
    let pairs = page.iter().zip(page.iter().skip(1));
    for (a, b) in pairs {
        if let Some(count) = steps.get_mut(usize::from(b.wrapping_sub(*a))) {
            *count = count.wrapping_add(1);
        }
    }
    is_random(&steps, page.len().saturating_sub(1))
}

/// Whether the words of a page are doubles. Their exponents must be plausible, and enough words must have one.
fn has_fractions(words: &[[u8; 8]]) -> bool {
    let exponent = |word: &[u8; 8]| i32::from(u16::from_le_bytes([word[6], word[7]]) >> 4 & 0x7ff) - 0x3ff;
    plausible(words.iter().filter(|word| **word != [0; 8]).map(exponent), words.len())
}

/// Like [`has_fractions`], for 4-byte floats.
fn has_short_fractions(words: &[[u8; 4]]) -> bool {
    let exponent = |word: &[u8; 4]| i32::from(u16::from_le_bytes([word[2], word[3]]) >> 7 & 0xff) - 0x7f;
    plausible(words.iter().filter(|word| **word != [0; 4]).map(exponent), words.len())
}

/// Whether nearly all exponents are plausible, and enough words have one.
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

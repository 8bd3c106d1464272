//! Strings (PEP 393: Include/cpython/unicodeobject.h) and bytes.

use super::Objects;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// `state.kind` is the number of bytes per character. It has three bits, above those of `state.interned`.
const KIND_SHIFT: u32 = 2;
const KIND_MASK: u32 = 7;

/// `state.compact`: the characters follow the header.
const COMPACT: u32 = 1 << 5;

/// `state.ascii`.
const ASCII: u32 = 1 << 6;

/// Position and encoding of a str's characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextContent {
    /// Address of the first character.
    pub start: Addr,
    /// Number of characters.
    pub length: u64,
    /// Bytes per character: 1 (Latin-1), 2 (UCS-2) or 4.
    pub kind: u64,
    /// Whether the characters follow the header, in the object's own block.
    pub compact: bool,
    /// Whether all characters are ASCII. Only then does the object lack the fields for a UTF-8 form.
    pub ascii: bool,
}

impl TextContent {
    /// Size in bytes of all characters, terminator included.
    pub fn bytes(&self) -> u64 {
        self.length.saturating_add(1).saturating_mul(self.kind)
    }
}

impl Objects<'_> {
    /// Position and encoding of the characters of the str at `object`, which must be one.
    pub fn text_content(&self, object: Addr) -> Option<TextContent> {
        self.text_in(object, |offset| self.word_at(object, offset))
    }

    /// Like [`Objects::text_content`], reading words through `word` by their offset, a multiple of 8.
    #[inline(always)]
    pub(crate) fn text_in(&self, object: Addr, word: impl Fn(u64) -> Option<u64>) -> Option<TextContent> {
        let shape = &self.shape.text;
        let state = (word(shape.state & !7)? >> (8 * (shape.state & 7))) as u32;
        let length = word(shape.length).filter(|n| *n <= i64::MAX as u64)?;
        let (compact, ascii) = (state & COMPACT != 0, state & ASCII != 0);
        let start = match (compact, ascii) {
            (true, true) => object.checked_add(shape.ascii)?,
            (true, false) => object.checked_add(shape.compact)?,
            // Instances of str subclasses have their characters in separate memory.
            (false, _) => Addr::new(word(shape.data)?),
        };
        let kind = u64::from(state >> KIND_SHIFT & KIND_MASK);
        // Kind 0 is a string whose characters do not exist yet. Up to 3.11.
        matches!(kind, 1 | 2 | 4).then_some(TextContent { start, length, kind, compact, ascii })
    }

    /// The first `limit` characters of the str at `object`, which must be one.
    pub fn text(&self, object: Addr, limit: usize) -> Option<String> {
        let content = self.text_content(object)?;
        let length = content.length.min(limit as u64) as usize;
        let bytes = self.memory.look(content.start, length.checked_mul(content.kind as usize)?).ok()?;
        Some(match content.kind {
            1 => bytes.iter().map(|b| char::from(*b)).collect(),
            2 => String::from_utf16_lossy(&units(&bytes, |b: [u8; 2]| u16::from_le_bytes(b))),
            _ => {
                let points = units(&bytes, |b: [u8; 4]| u32::from_le_bytes(b));
                points.into_iter().map(|p| char::from_u32(p).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
        })
    }

    /// Text of a str that is a name (of a type, module or file), up to the limit for names.
    pub fn name(&self, object: Addr) -> Option<String> {
        self.text(object, limits::MAX_PY_NAME).filter(|_| !object.is_null())
    }

    pub(super) fn is_text(&self, object: Addr, text: &str) -> bool {
        let same_length = |content: &TextContent| content.length == text.len() as u64 && content.ascii;
        let content = self.text_content(object).filter(same_length);
        content.is_some_and(|c| self.memory.look(c.start, text.len()).is_ok_and(|bytes| bytes == text.as_bytes()))
    }

    /// The first `limit` bytes of the bytes object at `object`, which must be one.
    pub fn bytes(&self, object: Addr, limit: usize) -> Option<Vec<u8>> {
        let length = usize::try_from(self.ob_size(object)?).ok()?.min(limit);
        self.memory.look(object.checked_add(self.shape.bytes)?, length).ok()
    }
}

/// Whether the text could be a name in a program.
pub(crate) fn is_identifier(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c == '_' || c.is_alphabetic());
    starts && text.chars().all(|c| c == '_' || c.is_alphanumeric())
}

fn units<const N: usize, T>(bytes: &[u8], unit: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| unit(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::is_identifier;

    #[test]
    fn an_identifier_does_not_start_with_a_digit() {
        assert!(is_identifier("rows_2") && is_identifier("_x") && is_identifier("größe"));
        assert!(!is_identifier("2nd") && !is_identifier("a b") && !is_identifier(""));
    }
}

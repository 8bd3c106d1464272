//! Strings (PEP 393: Include/cpython/unicodeobject.h) and bytes.

use super::Objects;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// `state.kind`: bytes of a character; three bits, above those for being interned.
const KIND_SHIFT: u32 = 2;
const KIND_MASK: u32 = 7;

/// `state.compact`: the characters follow the header.
const COMPACT: u32 = 1 << 5;

/// `state.ascii`
const ASCII: u32 = 1 << 6;

/// What a str holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextContent {
    /// Where its characters are.
    pub start: Addr,
    /// Number of characters.
    pub length: u64,
    /// Bytes of a character: 1 (Latin-1), 2 (UCS-2) or 4.
    pub kind: u64,
    /// Whether they follow the header in the object's own memory.
    pub compact: bool,
    /// Whether all are ASCII; only then there is no room for a UTF-8 form beside it.
    pub ascii: bool,
}

impl TextContent {
    /// Bytes of all characters, with the terminating one.
    pub fn bytes(&self) -> u64 {
        self.length.saturating_add(1).saturating_mul(self.kind)
    }
}

impl Objects<'_> {
    /// Where a str has its characters; the caller knows that it is one.
    pub fn text_content(&self, object: Addr) -> Option<TextContent> {
        self.text_in(object, |offset| self.word_at(object, offset))
    }

    /// The same of the object whose words `word` tells by their offset, a multiple of 8.
    #[inline(always)]
    pub(crate) fn text_in(&self, object: Addr, word: impl Fn(u64) -> Option<u64>) -> Option<TextContent> {
        let shape = &self.shape.text;
        let state = (word(shape.state & !7)? >> (8 * (shape.state & 7))) as u32;
        let length = word(shape.length).filter(|n| *n <= i64::MAX as u64)?;
        let (compact, ascii) = (state & COMPACT != 0, state & ASCII != 0);
        let start = match (compact, ascii) {
            (true, true) => object.checked_add(shape.ascii)?,
            (true, false) => object.checked_add(shape.compact)?,
            // A subclass of str has its characters elsewhere.
            (false, _) => Addr::new(word(shape.data)?),
        };
        let kind = u64::from(state >> KIND_SHIFT & KIND_MASK);
        // Kind 0 was a string whose characters are not made yet (up to 3.11).
        matches!(kind, 1 | 2 | 4).then_some(TextContent { start, length, kind, compact, ascii })
    }

    /// A str as text, at most `most` characters of it; the caller knows that it is one.
    pub fn text(&self, object: Addr, most: usize) -> Option<String> {
        let content = self.text_content(object)?;
        let length = content.length.min(most as u64) as usize;
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

    /// A str that is a name: of a type, a module, a file.
    pub fn name(&self, object: Addr) -> Option<String> {
        self.text(object, limits::MAX_PY_NAME).filter(|_| !object.is_null())
    }

    /// Whether the str at `object` is `text`.
    pub(super) fn is_text(&self, object: Addr, text: &str) -> bool {
        let same_length = |content: &TextContent| content.length == text.len() as u64 && content.ascii;
        let content = self.text_content(object).filter(same_length);
        content.is_some_and(|c| self.memory.look(c.start, text.len()).is_ok_and(|bytes| bytes == text.as_bytes()))
    }

    /// The bytes of a bytes object, at most `most`; the caller knows that it is one.
    pub fn bytes(&self, object: Addr, most: usize) -> Option<Vec<u8>> {
        let length = usize::try_from(self.ob_size(object)?).ok()?.min(most);
        self.memory.look(object.checked_add(self.shape.bytes)?, length).ok()
    }
}

fn units<const N: usize, T>(bytes: &[u8], unit: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| unit(*chunk)).collect()
}

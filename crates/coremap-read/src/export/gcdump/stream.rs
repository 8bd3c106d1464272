//! Writes the stream of a .gcdump: a sequence of objects with types and versions, and a table of file positions at the
//! end.
//!
//! microsoft/perfview, src/FastSerialization: FastSerialization.cs, StreamReaderWriter.cs.

use std::io::{self, BufWriter, SeekFrom, Write as _};

use crate::export::{ExportError, Output};

/// Magic text at the start of the file.
const MAGIC: &str = "!FastSerialization.1";

const BUFFER: usize = 1 << 20;

/// Tags: one byte that says what follows.
pub(super) mod tag {
    /// No object.
    pub(crate) const NULL: u8 = 1;
    /// Position of an object that was already written.
    pub(crate) const REFERENCE: u8 = 2;
    /// Start of an object: its type, its fields, [`END`].
    pub(crate) const BEGIN: u8 = 4;
    pub(crate) const END: u8 = 6;
    /// A one-byte field that older readers skip.
    pub(crate) const BYTE: u8 = 8;
    /// A field that older readers skip, up to a position in the table at the end.
    pub(crate) const SKIP: u8 = 12;
    /// A text field that older readers skip.
    pub(crate) const TEXT: u8 = 13;
}

/// Writer of such a file, which tracks its position.
pub(super) struct Stream<'o> {
    out: BufWriter<&'o mut dyn Output>,
    at: u64,
    /// Types written so far, with their positions.
    types: Vec<(&'static str, u32)>,
    /// Positions for the table at the end.
    forward: Vec<u32>,
}

impl<'o> Stream<'o> {
    pub(super) fn begin(out: &'o mut dyn Output) -> io::Result<Stream<'o>> {
        let out = BufWriter::with_capacity(BUFFER, out);
        let mut stream = Stream { out, at: 0, types: Vec::new(), forward: Vec::new() };
        stream.text(Some(MAGIC))?;
        Ok(stream)
    }

    /// Returns the position of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the position as the four bytes that the format has for it.
    fn place(&self) -> Result<u32, ExportError> {
        u32::try_from(self.at)
            .map_err(|_| ExportError::Unfit("the heap is too large for a .gcdump: its limit is 4 GiB".into()))
    }

    /// Moves to `at`. Skipped bytes must be written later.
    pub(super) fn seek(&mut self, at: u64) -> io::Result<()> {
        use std::io::Seek as _;

        self.out.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    pub(super) fn u8(&mut self, value: u8) -> io::Result<()> {
        self.bytes(&[value])
    }

    pub(super) fn i32(&mut self, value: i32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn i64(&mut self, value: i64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn f32(&mut self, value: f32) -> io::Result<()> {
        self.bytes(&value.to_le_bytes())
    }

    /// Writes a text: the number of UTF-16 units, then each unit encoded by itself as in UTF-8. So a character above
    /// U+FFFF takes six bytes, and the number is not one of bytes.
    pub(super) fn text(&mut self, text: Option<&str>) -> io::Result<()> {
        let Some(text) = text else { return self.i32(-1) };
        if text.is_ascii() {
            self.i32(text.len() as i32)?;
            return self.bytes(text.as_bytes());
        }
        self.i32(text.encode_utf16().count() as i32)?;
        for unit in text.encode_utf16() {
            let low = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
            match unit {
                0..0x80 => self.u8(unit as u8)?,
                0x80..0x800 => self.bytes(&[0xc0 | (unit >> 6) as u8, low(0)])?,
                _ => self.bytes(&[0xe0 | (unit >> 12) as u8, low(6), low(0)])?,
            }
        }
        Ok(())
    }

    /// Starts an object of a type, with its version and the oldest reader version that understands it.
    pub(super) fn object(&mut self, name: &'static str, version: i32, reader: i32) -> Result<(), ExportError> {
        self.u8(tag::BEGIN)?;
        if let Some(&(_, place)) = self.types.iter().find(|known| known.0 == name) {
            self.u8(tag::REFERENCE)?;
            return Ok(self.u32(place)?);
        }
        self.types.push((name, self.place()?));
        // A type is an object too. It has no type of its own.
        self.bytes(&[tag::BEGIN, tag::NULL])?;
        self.i32(version)?;
        self.i32(reader)?;
        self.text(Some(name))?;
        Ok(self.u8(tag::END)?)
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.u8(tag::END)
    }

    /// Writes an empty section that older readers skip.
    pub(super) fn nothing_to_skip(&mut self) -> Result<(), ExportError> {
        self.u8(tag::SKIP)?;
        self.i32(self.forward.len() as i32)?;
        self.u8(tag::NULL)?;
        self.forward.push(self.place()?);
        Ok(())
    }

    /// Ends the file with the table of positions, the table's position, and the position of that.
    pub(super) fn finish(mut self) -> Result<u64, ExportError> {
        // Readers stop here: no further object follows.
        self.end()?;
        let table = self.place()?;
        self.i32(self.forward.len() as i32)?;
        for place in std::mem::take(&mut self.forward) {
            self.u32(place)?;
        }
        let trailer = self.place()?;
        self.u32(table)?;
        self.u32(trailer)?;
        self.out.flush()?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_text_counts_units_of_utf16_and_writes_each_by_itself() -> Result<(), ExportError> {
        let mut out = Cursor::new(Vec::new());
        let mut stream = Stream::begin(&mut out)?;
        let from = stream.at() as usize;
        stream.text(Some("aß€\u{1f600}"))?;
        stream.text(None)?;
        let to = stream.at() as usize;
        let size = stream.finish()?;
        let bytes = out.into_inner();
        assert_eq!(bytes.len() as u64, size);
        // U+1F600 is the units D83D and DE00, three bytes each (CESU-8).
        let text = b"\x05\0\0\0a\xc3\x9f\xe2\x82\xac\xed\xa0\xbd\xed\xb8\x80\xff\xff\xff\xff";
        assert_eq!(bytes.get(from..to), Some(&text[..]));
        Ok(())
    }

    #[test]
    fn a_type_is_written_once_and_the_end_tells_where_the_table_is() -> Result<(), ExportError> {
        let mut out = Cursor::new(Vec::new());
        let mut stream = Stream::begin(&mut out)?;
        stream.object("T", 3, 2)?;
        stream.end()?;
        stream.object("T", 3, 2)?;
        stream.end()?;
        stream.finish()?;
        let bytes = out.into_inner();
        let magic = 4 + MAGIC.len();
        let first = [&[4, 4, 1, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, b'T', 6, 6][..]].concat();
        let place = (magic as u32 + 1).to_le_bytes();
        let second = [&[4, 2][..], &place, &[6]].concat();
        let body = [first, second, vec![6]].concat();
        let table = (magic + body.len()) as u32;
        let end = [[0; 4], table.to_le_bytes(), (table + 4).to_le_bytes()].concat();
        assert_eq!(bytes.get(magic..), Some(&[body, end].concat()[..]));
        Ok(())
    }
}

//! Reads a text line by line, with a limit on the length of a stored line.

use std::io::{self, BufRead};

use crate::limits;

/// A line, or a part of a long one.
pub(super) enum TextLine<'t> {
    /// A whole line, with its end.
    Line(&'t [u8]),
    /// A part of a line that is too long to parse.
    Long {
        bytes: &'t [u8],
        /// Whether it is the start of the line.
        first: bool,
    },
}

/// Iterator over the lines of a text.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    long: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        Lines { input, line: Vec::new(), long: false }
    }

    /// Returns the next piece. `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<TextLine<'_>>> {
        self.line.clear();
        let mut whole = false;
        while self.line.len() < limits::MAX_TEXT_LINE && !whole {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if chunk.is_empty() {
                break;
            }
            let room = chunk.len().min(limits::MAX_TEXT_LINE - self.line.len());
            let chunk = chunk.get(..room).unwrap_or_default();
            let taken = match memchr::memchr(b'\n', chunk) {
                Some(at) => {
                    whole = true;
                    at + 1
                }
                None => chunk.len(),
            };
            self.line.extend_from_slice(chunk.get(..taken).unwrap_or_default());
            self.input.consume(taken);
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        let full = !whole && self.line.len() >= limits::MAX_TEXT_LINE;
        if self.long || full {
            let first = !self.long;
            self.long = full;
            return Ok(Some(TextLine::Long { bytes: &self.line, first }));
        }
        Ok(Some(TextLine::Line(&self.line)))
    }
}

/// Reads the first bytes of `input`, up to [`limits::MAX_TEXT_PROBE`].
pub(super) fn probe(input: &mut dyn BufRead) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    while out.len() < limits::MAX_TEXT_PROBE {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if chunk.is_empty() {
            break;
        }
        let taken = chunk.len().min(limits::MAX_TEXT_PROBE - out.len());
        out.extend_from_slice(chunk.get(..taken).unwrap_or_default());
        input.consume(taken);
    }
    Ok(out)
}

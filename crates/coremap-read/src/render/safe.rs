//! Text of a core in CSV. Characters that move a cursor, or end a field for a careless reader, are escaped as in
//! tables.

use std::io::{self, Write};

use crate::bytes::printable;

/// Writes line by line. Escapes control characters except tabs and line ends, which CSV quotes.
pub(crate) struct Safe<'a> {
    out: &'a mut dyn Write,
    /// An incomplete line. Its last character may be cut.
    pending: Vec<u8>,
}

impl<'a> Safe<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Safe<'a> {
        Safe { out, pending: Vec::new() }
    }

    fn pass(&mut self, upto: usize) -> io::Result<()> {
        let lines = self.pending.get(..upto).unwrap_or_default();
        let text = String::from_utf8_lossy(lines);
        for part in text.split_inclusive(['\n', '\r', '\t']) {
            let end = part.len() - usize::from(part.ends_with(['\n', '\r', '\t']));
            self.out.write_all(printable(part.get(..end).unwrap_or_default()).as_bytes())?;
            self.out.write_all(part.get(end..).unwrap_or_default().as_bytes())?;
        }
        self.pending.drain(..upto);
        Ok(())
    }
}

impl Write for Safe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if let Some(last) = self.pending.iter().rposition(|&b| b == b'\n') {
            self.pass(last + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(self.pending.len())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_wherever_a_write_is_cut() -> io::Result<()> {
        let text = "a,\"two\nlines\",Ω\u{1b}[2J\u{9b}x\u{202e}\n1,\u{0},\t\r\n".as_bytes();
        let want = "a,\"two\nlines\",Ω\\x1b[2J\\x9bx\\u{202e}\n1,\\x00,\t\r\n";
        for cut in 0..=text.len() {
            let mut out = Vec::new();
            let mut safe = Safe::new(&mut out);
            let (first, second) = text.split_at(cut);
            safe.write_all(first)?;
            safe.write_all(second)?;
            safe.flush()?;
            assert_eq!(String::from_utf8_lossy(&out), want, "cut at {cut}");
        }
        Ok(())
    }
}

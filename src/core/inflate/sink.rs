use crate::host::FileAt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::StreamEnd;
use crate::core::mapped::Losses;
use crate::limits;

/// Block size for holes: the allocation unit of file systems.
const HOLE: usize = 4096;

/// Bytes buffered before they are written.
const BUFFER: usize = 1 << 20;

/// The unlinked temporary file for a decompressed core, with holes for zeros.
pub(super) struct Sink {
    file: File,
    buffer: Vec<u8>,
    filled: usize,
    /// File offset of the buffer.
    at: u64,
    holes: Vec<Range<u64>>,
    /// What could not be read back from the file.
    losses: Arc<Losses>,
}

impl Sink {
    pub(super) fn new() -> io::Result<Sink> {
        let (file, losses) = (tempfile::tempfile()?, Arc::default());
        Ok(Sink { file, buffer: vec![0; BUFFER], filled: 0, at: 0, holes: Vec::new(), losses })
    }

    pub(super) fn len(&self) -> u64 {
        self.at + self.filled as u64
    }

    /// Whether the size limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= limits::MAX_INFLATED
    }

    /// The end of a stream that reached the size limit.
    pub(super) fn full(&self) -> StreamEnd {
        StreamEnd::broken(&format!("more than {} bytes", limits::MAX_INFLATED))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Where the next bytes may be put; never empty.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    /// Commits `n` bytes written to [`Sink::room`].
    pub(super) fn advance(&mut self, n: usize) -> io::Result<()> {
        self.filled += n;
        if self.filled == self.buffer.len() { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.append(&buffer[..self.filled]);
        self.buffer = buffer;
        self.filled = 0;
        written
    }

    /// Writes `bytes` directly. The buffer must be flushed.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let first = HOLE - (self.at % HOLE as u64) as usize;
            let (zeros, data) = runs(rest, first);
            if zeros > 0 {
                self.hole(self.at..self.at + zeros as u64);
            }
            let end = zeros + data;
            self.file.write_all_at(&rest[zeros..end], self.at + zeros as u64)?;
            self.at += end as u64;
            rest = &rest[end..];
        }
        Ok(())
    }

    fn hole(&mut self, range: Range<u64>) {
        let room = self.holes.len() < limits::MAX_HOLES;
        match self.holes.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            // A short hole is replaced.
            Some(last) if last.end - last.start < limits::MIN_HOLE => *last = range,
            _ if room => self.holes.push(range),
            _ => {}
        }
    }

    pub(super) fn holes_from(&self, at: u64) -> &[Range<u64>] {
        &self.holes[self.holes.partition_point(|h| h.end <= at)..]
    }

    /// The file, and its long holes.
    pub(super) fn finish(mut self) -> io::Result<(File, Vec<Range<u64>>)> {
        self.flush()?;
        self.file.set_len(self.at)?;
        self.holes.retain(|h| h.end - h.start >= limits::MIN_HOLE);
        Ok((self.file, self.holes))
    }
}

/// Number of bytes in leading blocks of zeros, and in the following blocks of data. The first block has `first` bytes.
fn runs(bytes: &[u8], first: usize) -> (usize, usize) {
    let zeros = blocks(bytes, first).take_while(|b| is_zero(b)).map(<[u8]>::len).sum::<usize>();
    let rest = &bytes[zeros..];
    let first = if zeros == 0 { first } else { HOLE };
    let data = blocks(rest, first).take_while(|b| !is_zero(b)).map(<[u8]>::len).sum::<usize>();
    (zeros, data)
}

fn blocks(bytes: &[u8], first: usize) -> impl Iterator<Item = &[u8]> {
    let (head, tail) = bytes.split_at(first.min(bytes.len()));
    std::iter::once(head).chain(tail.chunks(HOLE))
}

/// Tests several words at a time. Testing single bytes takes as long as decompression.
fn is_zero(block: &[u8]) -> bool {
    let (parts, rest) = block.as_chunks::<64>();
    parts.iter().all(|part| part.iter().fold(0, |all, b| all | b) == 0) && rest.iter().all(|&b| b == 0)
}

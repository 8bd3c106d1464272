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

/// Bytes needed to recognise a file format: the first block of a tar archive.
const BEGINNING: usize = 512;

/// Bytes written of a refused file, for the error message.
const KEPT: usize = 4096;

/// The unlinked temporary file for a decompressed core, with holes for zeros.
pub(super) struct Sink {
    file: File,
    buffer: Vec<u8>,
    filled: usize,
    /// File offset of the buffer.
    at: u64,
    holes: Vec<Range<u64>>,
    /// Parts of the file that could not be read back.
    losses: Arc<Losses>,
    /// Whether a file with this beginning may be a core.
    accepts: fn(&[u8]) -> bool,
    /// The answer of `accepts`. `None` while the beginning is too short.
    accepted: Option<bool>,
}

impl Sink {
    pub(super) fn new(accepts: fn(&[u8]) -> bool) -> io::Result<Sink> {
        let (file, losses) = (tempfile::tempfile()?, Arc::default());
        let buffer = vec![0; BUFFER];
        Ok(Sink { file, buffer, filled: 0, at: 0, holes: Vec::new(), losses, accepts, accepted: None })
    }

    /// Whether `accepts` refused the beginning of the file. Then the rest is not needed.
    pub(super) fn is_refused(&self) -> bool {
        self.accepted == Some(false)
    }

    pub(super) fn len(&self) -> u64 {
        self.at + self.filled as u64
    }

    /// Whether the size limit is reached, or the file is refused.
    pub(super) fn is_full(&self) -> bool {
        self.is_refused() || self.len() >= limits::MAX_INFLATED
    }

    /// The end of a stream for which [`Sink::is_full`] is true.
    pub(super) fn full(&self) -> StreamEnd {
        if self.is_refused() {
            return StreamEnd::Whole;
        }
        StreamEnd::broken(&format!("more than {} bytes", limits::MAX_INFLATED))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Returns the free space for the next bytes. Never empty.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    /// Commits `n` bytes written to [`Sink::room`].
    pub(super) fn advance(&mut self, n: usize) -> io::Result<()> {
        self.filled += n;
        if self.accepted.is_none() && self.at == 0 && self.filled >= BEGINNING {
            self.accepted = Some((self.accepts)(&self.buffer[..self.filled]));
        }
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
        if self.accepted.is_none() && self.at == 0 && bytes.len() >= BEGINNING {
            self.accepted = Some((self.accepts)(bytes));
        }
        let most = if self.is_refused() { KEPT.saturating_sub(self.at as usize) } else { usize::MAX };
        let mut rest = &bytes[..bytes.len().min(most)];
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
